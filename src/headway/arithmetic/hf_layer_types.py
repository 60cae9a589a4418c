"""Which kind of attention each layer has: said by `layer_types`, or by the older keys of each family."""

from __future__ import annotations

from typing import Any

from headway.arithmetic.hf_keys import Config, count, entries, flag, positive, section
from headway.arithmetic.layers import ShapeError

FULL, WINDOW, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
MAMBA = "mamba"
COMPRESSED_SPARSE, COMPRESSED = "compressed_sparse_attention", "heavily_compressed_attention"
INDEXED = "indexed_attention"
KNOWN = (FULL, WINDOW, CHUNKED, LINEAR, MAMBA, COMPRESSED_SPARSE, COMPRESSED)
INDEXED_FAMILIES = ("deepseek_v32", "glm_moe_dsa")
"""Whose every layer reads what an indexer chooses, whether the file names its layers so or not."""
MAX_LAYERS = 10_000
_COMPRESS_RATIOS = {0: WINDOW, 4: COMPRESSED_SPARSE, 128: COMPRESSED}
_BLOCKS = {"M": MAMBA, "E": "moe", "*": "attention", "-": "mlp"}
_SAME_BLOCKS = {LINEAR: MAMBA, FULL: "attention"}
"""What transformers 5 calls them."""


def layer_types(config: Config, family: str) -> list[str]:
    """One entry a layer; for `nemotron_h` the block: mamba, moe, attention or mlp."""
    if family == "nemotron_h":
        return _blocks(config)
    total = num_layers(config)
    given = config.get("layer_types")
    types = _list("layer_types", given, total) if given is not None else _derived(config, family, total)
    types = [FULL if t == "attention" else t for t in types]
    if family in INDEXED_FAMILIES:
        types = [FULL if t == INDEXED else t for t in types]
    if family == "gemma4_text":  # The class makes its last layer a full one.
        types = [*types[:-1], FULL]
    unknown = sorted({str(t) for t in types} - set(KNOWN))
    if unknown:
        raise ShapeError(f"layer_types {unknown[0]!r} is not supported; supported: {', '.join(KNOWN)}")
    return types


def num_layers(config: Config) -> int:
    total = positive(config, "num_hidden_layers")
    if total > MAX_LAYERS:
        raise ShapeError(f"num_hidden_layers must be at most {MAX_LAYERS}, not {total}")
    return total


def _derived(config: Config, family: str, total: int) -> list[str]:
    every = range(total)
    if family in ("gemma2", "gpt_oss"):
        return [WINDOW if i % 2 == 0 else FULL for i in every]
    if family == "gemma3_text":
        pattern = count(config, "sliding_window_pattern") or 6
        return [WINDOW if (i + 1) % pattern else FULL for i in every]
    if family == "gemma4_text":
        return [WINDOW if (i + 1) % 6 else FULL for i in every]
    if family == "mimo_v2_flash":
        return _first_and_sixths(config, total)
    if family == "llama4_text":
        return _chunked(config, total)
    if family in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        interval = count(config, "full_attention_interval") or 4
        return [LINEAR if (i + 1) % interval else FULL for i in every]
    if family == "kimi_linear":
        linear = section(config, "linear_attn_config")
        full = entries(linear, "full_attn_layers") if linear else [i + 1 for i in every if i and i % 4 == 0]
        return [FULL if i + 1 in full else LINEAR for i in every]
    if family in ("minimax_m1", "minimax_text_01"):
        return [FULL if kind == 1 else LINEAR for kind in _list("attn_type_list", config.get("attn_type_list"), total)]
    if family == "deepseek_v4":
        return [_compressed(r) for r in _list("compress_ratios", config.get("compress_ratios"), total)]
    if config.get("sliding_window_pattern"):
        return _patterned(config["sliding_window_pattern"], total)
    return [_windowed(config, family, i) for i in every]


def _patterned(pattern: Any, total: int) -> list[str]:
    """Every so many layers one is full; or, repeated, L for a window and G for all."""
    if isinstance(pattern, str) and not pattern.strip("LG"):
        return [WINDOW if pattern[i % len(pattern)] == "L" else FULL for i in range(total)]
    if not isinstance(pattern, int) or isinstance(pattern, bool) or pattern < 1:
        raise ShapeError(f"sliding_window_pattern must be a positive integer or letters L and G, not {pattern!r}")
    return [WINDOW if (i + 1) % pattern else FULL for i in range(total)]


def _first_and_sixths(config: Config, total: int) -> list[str]:
    """MiMo V2: full layers, unless the file marks those with a window."""
    given = config.get("hybrid_layer_pattern")
    if given is None:
        return [WINDOW if i and (i + 1) % 6 else FULL for i in range(total)]
    return [WINDOW if each else FULL for each in _list("hybrid_layer_pattern", given, total)]


def _chunked(config: Config, total: int) -> list[str]:
    """Llama 4: layers that rotate attend in chunks, unless there are none."""
    rotated = entries(config, "no_rope_layers")
    interval = count(config, "no_rope_layer_interval") or 4
    rotated = _list("no_rope_layers", rotated, total) if rotated else [(i + 1) % interval for i in range(total)]
    return [CHUNKED if each and config.get("attention_chunk_size") else FULL for each in rotated]


def _windowed(config: Config, family: str, index: int) -> str:
    if family.startswith("qwen"):
        windowed = flag(config, "use_sliding_window") and index >= count(config, "max_window_layers")
    else:
        windowed = family in ("mistral", "mixtral")
    return WINDOW if windowed and config.get("sliding_window") else FULL


def _compressed(ratio: Any) -> str:
    if not isinstance(ratio, int) or ratio not in _COMPRESS_RATIOS:
        raise ShapeError(f"compress_ratios must hold 0, 4 or 128, not {ratio!r}")
    return _COMPRESS_RATIOS[ratio]


def _blocks(config: Config) -> list[str]:
    named = entries(config, "layers_block_type") or entries(config, "layer_types")
    if not named:
        pattern = config.get("hybrid_override_pattern")
        if not isinstance(pattern, str) or not pattern:
            raise ShapeError(f"hybrid_override_pattern must be a string of M, E, * and -, not {pattern!r}")
        named = [_BLOCKS.get(letter, letter) for letter in pattern]
    blocks = _list("layers_block_type", named, min(len(named), MAX_LAYERS))
    blocks = [_SAME_BLOCKS.get(str(block), block) for block in blocks]
    unknown = sorted({str(b) for b in blocks} - set(_BLOCKS.values()))
    if unknown or not blocks:
        raise ShapeError(f"hybrid_override_pattern: block {unknown[:1]!r} is not one of M, E, * and -")
    if not {MAMBA, "attention"} & set(blocks):
        raise ShapeError("hybrid_override_pattern: no block reads other tokens; M or * is needed")
    return blocks


def _list(key: str, value: object, length: int) -> list[Any]:
    """The first `length` entries: configs append those of layers that only predict further tokens."""
    if not isinstance(value, list) or len(value) < length:
        raise ShapeError(f"{key} must be a list with an entry for each of the {length} layers")
    return value[:length]
