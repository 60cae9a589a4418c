"""Names that published measurements use, and the catalog's names for the same things."""

from __future__ import annotations

import re
from functools import cache

from headway.catalog import Catalog
from headway.planner.truth.models import OLDER

_SYSTEMS = {
    "h100-80gb": "hgx-h100",
    "rtx6000probw": "rtx-pro-6000-node",
}
ASSUMED_SYSTEM = {"unstated 8-gpu node": "hgx-h200"}
"""GLM-5 in FP8 needs 744 GB: of the nodes that the same authors measure, eight H200 are the least that hold it."""

_MODELS = {
    "llama-3-8b": "llama-3.1-8b",
    "llama-3-70b": "llama-3.1-70b",
    "llama-3.3-70b": "llama-3.1-70b",
    "llama2-70b": "llama-2-70b",
    "deepseek-r1": "deepseek-v3",
    "deepseek-v3.1": "deepseek-v3",
    "kimi-k2.5": "kimi-k2",
    "glm-5.1": "glm-5",
    "glm-5.2": "glm-5.3",
    "minimax-m2": "minimax-m2.5",
    "minimax-m2.7": "minimax-m2.5",
    "qwen3.5-397b": "qwen3.5-397b-a17b",
    "qwen3-235b": "qwen3-235b-a22b",
    "qwen3-30b": "qwen3-30b-a3b",
}
"""Models of one shape share a name: R1 is V3, whoever trained it further."""

_ENGINES = (("tensorrt-llm", "trtllm"), ("trtllm", "trtllm"), ("sglang", "sglang"), ("vllm", "vllm"))
_WEIGHTS = {
    **dict.fromkeys(("bf16", "bfloat16", "fp16", "float16"), "bf16"),
    **dict.fromkeys(("fp8", "fp8_block"), "fp8"),
    **dict.fromkeys(("int8", "w8a8"), "int8"),
    **dict.fromkeys(("fp4", "mxfp4", "nvfp4"), "fp4"),
    **dict.fromkeys(("int4", "int4_wo", "w4a16", "awq", "gptq"), "int4"),
}
_SHIPPED = (
    ("fp8", "fp8"),
    ("fp4", "fp4"),
    ("awq", "int4"),
    ("gpt-oss", "fp4"),
    ("minimax", "fp8"),
    ("deepseek", "fp8"),
    ("kimi-k2.5", "int4"),
    ("kimi-k2-thinking", "int4"),
    ("kimi", "fp8"),
)
"""By what a model's name contains, in this order."""


def system_name(text: str, catalog: Catalog) -> tuple[str, bool] | None:
    """(system, whether it is stated), by the name of a system, its chip or the chip's beginning; None: not known."""
    name = text.strip().lower()
    if name in ASSUMED_SYSTEM:
        return ASSUMED_SYSTEM[name], False
    found = _SYSTEMS.get(name) or (catalog.chips_in_number(f"{name} x 1") or (None,))[0]
    return (found, True) if found else None


def model_name(text: str, catalog: Catalog) -> str | None:
    """The longest name that the text contains. A further number makes it another model: `GLM-5.3` is no `glm-5`."""
    names = _MODELS | {name: name for name in (*OLDER, *catalog.configs)}
    found = [name for name in names if _pattern(name).search(text.lower())]
    return names[max(found, key=len)] if found else None


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Hyphens may be left out, or be underscores."""
    parts = re.split(r"[-_ ]", name.lower())
    return re.compile(rf"(?<![a-z0-9]){'[-_ ]?'.join(map(re.escape, parts))}(?![a-z0-9]|\.[0-9])")


def engine_name(text: str) -> str:
    name = text.lower()
    return next((known for part, known in _ENGINES if part in name), "other")


def weights_name(text: str, model: str) -> str | None:
    """What is not stated is what the model ships as."""
    if text.strip():
        return _WEIGHTS.get(text.strip().lower())
    return next((weights for part, weights in _SHIPPED if part in model.lower()), "bf16")
