"""Names that published measurements use, and the catalog's names for the same things."""

from __future__ import annotations

SYSTEMS = {
    "a100": "hgx-a100",
    "b200": "hgx-b200",
    "b200_sxm": "hgx-b200",
    "b300": "hgx-b300",
    "b300_sxm": "hgx-b300",
    "gb200": "gb200-nvl72",
    "gb200 nvl72": "gb200-nvl72",
    "h100": "hgx-h100",
    "h100-80gb": "hgx-h100",
    "h100_sxm": "hgx-h100",
    "h200": "hgx-h200",
    "h200_sxm": "hgx-h200",
    "rtx 4090": "rtx-4090-node",
    "rtx pro 6000": "rtx-pro-6000-node",
    "rtx6000probw": "rtx-pro-6000-node",
}
ASSUMED_SYSTEM = {"unstated 8-gpu node": "hgx-h200"}
"""GLM-5 in FP8 needs 744 GB: of the nodes that the same authors measure, eight H200 are the least that hold it."""

_MODELS = (
    ("llama-3.1-8b", "llama-3.1-8b"),
    ("llama3.1-8b", "llama-3.1-8b"),
    ("llama-3.1-405b", "llama-3.1-405b"),
    ("llama3.1-405b", "llama-3.1-405b"),
    ("llama-3.3-70b", "llama-3.1-70b"),
    ("llama2-70b", "llama-2-70b"),
    ("llama-4-scout", "llama-4-scout"),
    ("llama-4-maverick", "llama-4-maverick"),
    ("mixtral-8x7b", "mixtral-8x7b"),
    ("deepseek-v4-pro", "deepseek-v4-pro"),
    ("deepseek-r1", "deepseek-v3"),
    ("deepseek-v3", "deepseek-v3"),
    ("glm-5", "glm-5"),
    ("minimax-m2.5", "minimax-m2.5"),
    ("gpt-oss-120b", "gpt-oss-120b"),
    ("gpt-oss-20b", "gpt-oss-20b"),
    ("qwen3.5-397b", "qwen3.5-397b-a17b"),
    ("qwen3-235b", "qwen3-235b-a22b"),
    ("qwen3-30b", "qwen3-30b-a3b"),
    ("qwen3-32b", "qwen3-32b"),
    ("qwen3-8b", "qwen3-8b"),
    ("bloom-176b", "bloom-176b"),
)
"""By what a name contains, in this order. Models of one shape share a name: R1 is V3, whoever trained it further."""

_ENGINES = (("tensorrt-llm", "trtllm"), ("trtllm", "trtllm"), ("sglang", "sglang"), ("vllm", "vllm"))
_WEIGHTS = {"bfloat16": "bf16", "bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp4": "fp4", "mxfp4": "fp4"}


def system_name(text: str) -> tuple[str, bool] | None:
    """(system, whether it is stated); None: not known."""
    name = text.strip().lower()
    if name in ASSUMED_SYSTEM:
        return ASSUMED_SYSTEM[name], False
    return (SYSTEMS[name], True) if name in SYSTEMS else None


def model_name(text: str) -> str | None:
    name = text.lower()
    return next((known for part, known in _MODELS if part in name), None)


def engine_name(text: str) -> str:
    name = text.lower()
    return next((known for part, known in _ENGINES if part in name), "other")


def weights_name(text: str, model: str) -> str | None:
    """What is not stated is what the model ships as."""
    if text.strip():
        return _WEIGHTS.get(text.strip().lower())
    if "gpt-oss" in model.lower():
        return "fp4"
    return "fp8" if any(part in model.lower() for part in ("fp8", "minimax", "deepseek")) else "bf16"
