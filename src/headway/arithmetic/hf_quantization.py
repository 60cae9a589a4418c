"""The number formats that a checkpoint's weights and cache are in: `quantization_config` of its `config.json`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.hf_keys import Config, text_section
from headway.arithmetic.matrices import Part
from headway.arithmetic.parameters import parameters
from headway.arithmetic.shape import ModelShape

UNQUANTISED = "bf16"
_MODULES: Mapping[Part, tuple[str, ...]] = {
    "attention": ("self_attn.o_proj", "mixer.o_proj"),
    "feed_forward": ("mlp.down_proj", "feed_forward.down_proj", "mixer.down_proj"),
    "shared_experts": (
        "mlp.shared_experts.down_proj",
        "mlp.shared_expert.down_proj",
        "feed_forward.shared_expert.down_proj",
        "mixer.shared_experts.down_proj",
    ),
    "experts": (
        "mlp.experts.0.down_proj",
        "feed_forward.experts.0.down_proj",
        "block_sparse_moe.experts.0.w2",
        "mixer.experts.0.down_proj",
    ),
}
"""One module that stands for each part, by the names that it goes by in checkpoints."""
_ROOTS = ("model.layers", "model.language_model.layers", "language_model.model.layers", "backbone.layers")
_LEFT_OUT = ("modules_to_not_convert", "ignore", "exclude_modules", "exclude", "ignored_layers")
_MODELOPT = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8_block128",
    "FP8_PB_REAL": "fp8_block128",
    "MXFP8": "mxfp8",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_AWQ": "int4",
    "W4A8_AWQ": "int4",
    "W8A8_SQ_PER_CHANNEL": "int8",
}
_CACHES = {"FP8": "fp8", "NVFP4": "nvfp4"}
_REPEATED = re.compile(r"[*+?{]")
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_MOST_REPEATED = 4
"""More, or groups repeated, may take for ever on a name that does not match."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Formats by name. `weights`: of attention, dense layers and shared experts, that of most of their parameters."""

    weights: str
    experts: str | None
    """Of the routed ones; None: as `weights`, or there are none."""
    others: Mapping[Part, str]
    """Parts that are in another format than the one that they are counted in."""


def quantised(config: Mapping[str, Any]) -> Config:
    """The section about it, of the text model where there are several; empty where there is none."""
    for place in (config, text_section(config)):
        if isinstance(found := place.get("quantization_config"), Mapping) and found:
            return found
    return {}


def stored(config: Mapping[str, Any], model: ModelShape) -> Stored | None:
    """None: the file says nothing of it, or nothing that is known here."""
    section = quantised(config)
    schemes = _schemes(section, model)
    patterns = [*_left_out(section), *(target for targets, _ in schemes for target in targets)]
    if not schemes or not all(map(_is_readable, patterns)):
        return None
    counted = parameters(model)
    sizes: dict[Part, int] = {
        "attention": counted.attention,
        "feed_forward": counted.feed_forward,
        "shared_experts": counted.shared_experts,
    }
    formats = {part: _of_part(part, section, schemes, model) for part in _MODULES}
    if config.get("expert_dtype") == "fp4":  # DeepSeek V4.
        formats["experts"] = "mxfp4"
    by_format: Counter[str] = Counter()
    for part, size in sizes.items():
        by_format[formats[part]] += size
    weights = max(by_format, key=lambda name: by_format[name])
    experts = formats["experts"] if counted.experts else weights
    others = {part: formats[part] for part, size in sizes.items() if size and formats[part] != weights}
    return Stored(weights, None if experts == weights else experts, others)


def chosen_precision(
    config: Mapping[str, Any], model: ModelShape, weights: str | None, kv: str | None, experts: str | None
) -> Precision:
    """`weights`, `kv` None: as the file says, else bf16. Raises ShapeError for an unknown name."""
    if weights is None:
        found = stored(config, model) or Stored(UNQUANTISED, None, {})
        weights, experts = found.weights, experts or found.experts
    return precision(weights, kv or stored_kv(config) or UNQUANTISED, experts)


def stored_kv(config: Mapping[str, Any]) -> str | None:
    """The format of the cache that the file has scales for; None: it says nothing of it, or nothing known here."""
    section = quantised(config)
    scheme = section.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("type") == "float" and scheme.get("num_bits") == 8:
        return "fp8"
    return _CACHES.get(str(section.get("kv_cache_quant_algo")))


def _schemes(section: Config, model: ModelShape) -> list[tuple[list[str], str]]:
    """(targets, format) in the order in which they are tried; empty where one is not known here."""
    groups = section.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        found = [(_patterns(group, "targets"), _of_group(group, model)) for group in groups.values()]
    else:
        found = [(["Linear"], _of_method(section, model))]
    return [(targets, name) for targets, name in found if name] if all(name for _, name in found) else []


def _of_part(part: Part, section: Config, schemes: list[tuple[list[str], str]], model: ModelShape) -> str:
    """As in most of three layers, since files may name every layer that they leave out."""
    layers = len(model.layers)
    found = [_of_module(part, index, section, schemes) for index in (layers // 4, layers // 2, 3 * layers // 4)]
    return max(found, key=found.count)


def _of_module(part: Part, index: int, section: Config, schemes: list[tuple[list[str], str]]) -> str:
    if section.get("quant_method") == "mxfp4" and part != "experts":
        return UNQUANTISED
    names = [f"{root}.{index}.{module}" for root in _ROOTS for module in _MODULES[part]]
    if any(_matches(pattern, name) for pattern in _left_out(section) for name in names):
        return UNQUANTISED
    for targets, number_format in schemes:
        if any(_is_class(target) or _matches(target, name) for target in targets for name in names):
            return number_format
    return UNQUANTISED


def _left_out(section: Config) -> list[str]:
    return [pattern for key in _LEFT_OUT for pattern in _patterns(section, key)]


def _patterns(section: Any, key: str) -> list[str]:
    value = section.get(key) if isinstance(section, Mapping) else None
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _is_readable(pattern: str) -> bool:
    if not pattern.startswith("re:"):
        return True
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return not _REPEATED_GROUP.search(pattern) and len(_REPEATED.findall(pattern)) <= _MOST_REPEATED


def _is_class(target: str) -> bool:
    return target == "Linear" or target.endswith("Linear")


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("re:"):
        return re.match(pattern[3:], name) is not None
    if "*" in pattern:
        return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
    return f".{pattern}." in f".{name}."


def _of_method(section: Config, model: ModelShape) -> str | None:
    method = section.get("quant_method")
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8_block128" if section.get("weight_block_size") == [128, 128] else "fp8"
    if method == "mxfp4":
        return "mxfp4"
    if method == "awq":
        return _whole_numbers(section.get("bits", 4), section.get("group_size", 128), section, "zero_point", model)
    if method in ("gptq", "auto-round"):
        return _whole_numbers(section.get("bits"), section.get("group_size", 128), section, None, model)
    if method == "modelopt":
        return _MODELOPT.get(str(section.get("quant_algo")))
    if method == "bitsandbytes":
        return _of_bitsandbytes(section)
    if method == "quark":
        every = section.get("global_quant_config")
        weight = every.get("weight") if isinstance(every, Mapping) else None
        kind = weight.get("dtype") if isinstance(weight, Mapping) else None
        return {"fp4": "mxfp4", "fp8_e4m3": "fp8"}.get(str(kind))
    return None


def _of_bitsandbytes(section: Config) -> str | None:
    if section.get("load_in_8bit") or section.get("_load_in_8bit"):
        return "int8"
    if section.get("load_in_4bit") or section.get("_load_in_4bit"):
        return "nf4_double" if section.get("bnb_4bit_use_double_quant") else "nf4"
    return None


def _of_group(group: Any, model: ModelShape) -> str | None:
    """Of compressed-tensors, which modelopt writes too."""
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, size = weights.get("num_bits"), weights.get("group_size")
    if weights.get("type") == "float":
        if bits == 8:
            blocks = weights.get("block_structure") == [128, 128]
            return "mxfp8" if size == 32 else "fp8_block128" if blocks else "fp8"
        return {16: "nvfp4", 32: "mxfp4"}.get(size) if bits == 4 and isinstance(size, int) else None
    if bits == 8 and not size and isinstance(group.get("input_activations"), Mapping):
        return "int8"
    return _whole_numbers(bits, size or -1, weights, None, model)


def _whole_numbers(bits: Any, group: Any, section: Config, zero: str | None, model: ModelShape) -> str | None:
    """Widened before they are multiplied. A group of -1 is a row of a matrix."""
    if type(bits) is not int or type(group) is not int or not 2 <= bits <= 8 or not (group == -1 or group > 0):
        return None
    has_zero = section.get(zero, True) is True if zero else section.get("symmetric", section.get("sym", True)) is False
    name = f"int{bits}_group{model.hidden if group == -1 else group}{'_zero' if has_zero else ''}"
    return {"int4_group128": "int4", "int4_group128_zero": "int4_zero"}.get(name, name)
