"""ModelShape from a Hugging Face `config.json`, read as data: no hub, no code from the model's repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.arithmetic.shape import (
    Attention,
    AttentionKind,
    FeedForward,
    Layer,
    ModelShape,
    Rope,
    ShapeError,
)

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


def shape_from_config(config: Mapping[str, Any]) -> ModelShape:
    """Raises ShapeError, naming the key, when the config lacks one or asks for what is not supported."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ShapeError(f"model_type {family!r} is not supported; supported: {', '.join(FAMILIES)}")
    num_layers = _positive(config, "num_hidden_layers")
    return ModelShape(
        family=family,
        hidden=_positive(config, "hidden_size"),
        vocab=_positive(config, "vocab_size"),
        layers=tuple(_layer(config, family, index) for index in range(num_layers)),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        max_context=_positive(config, "max_position_embeddings"),
    )


def _layer(config: Mapping[str, Any], family: str, index: int) -> Layer:
    heads = _positive(config, "num_attention_heads")
    kv_heads = config.get("num_key_value_heads") or heads
    if heads % kv_heads:
        raise ShapeError(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    activation = config.get("hidden_act", "silu")
    if activation not in _ACTIVATIONS:
        raise ShapeError(f"hidden_act {activation!r} is not supported; supported: {', '.join(_ACTIVATIONS)}")
    kind, window = _window(config, family, index)
    bias = bool(config.get("attention_bias", False))
    attention = Attention(
        kind=kind,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=config.get("head_dim") or _positive(config, "hidden_size") // heads,
        rope=_rope(config),
        window=window,
        qkv_bias=bias or family == "qwen2",
        output_bias=bias,
        qk_norm=family == "qwen3",
    )
    feed_forward = FeedForward(
        inner=_positive(config, "intermediate_size"),
        activation=_ACTIVATIONS[activation],  # type: ignore[arg-type]
        bias=bool(config.get("mlp_bias", False)),
    )
    return Layer(attention, feed_forward)


def _window(config: Mapping[str, Any], family: str, index: int) -> tuple[AttentionKind, int]:
    window = config.get("sliding_window") or 0
    layer_types = config.get("layer_types")
    if layer_types is not None:
        windowed = layer_types[index] == "sliding_attention"
    elif family in ("qwen2", "qwen3"):
        windowed = bool(config.get("use_sliding_window")) and index >= config.get("max_window_layers", 0)
    else:
        windowed = window > 0
    return ("window", window) if windowed and window else ("full", 0)


def _rope(config: Mapping[str, Any]) -> Rope:
    """Reads `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before)."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind not in ("default", "linear", "llama3"):
        raise ShapeError(f"rope type {kind!r} is not supported; supported: default, linear, llama3")
    return Rope(
        theta=float(parameters.get("rope_theta", config.get("rope_theta", 10000.0))),
        scaling=kind,
        factor=float(parameters.get("factor", 1.0)),
        low_freq_factor=float(parameters.get("low_freq_factor", 1.0)),
        high_freq_factor=float(parameters.get("high_freq_factor", 4.0)),
        original_max_context=int(parameters.get("original_max_position_embeddings", 0)),
    )


def _positive(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ShapeError(f"{key} must be a positive integer, not {value!r}")
    return value
