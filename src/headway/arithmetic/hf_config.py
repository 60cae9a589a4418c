"""ModelShape from a Hugging Face `config.json`, read as data: no hub, no code from the model's repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.arithmetic.hf_attention import absent, attention
from headway.arithmetic.hf_defaults import with_defaults
from headway.arithmetic.hf_feed_forward import block_feed_forward, feed_forward
from headway.arithmetic.hf_keys import Config, count, flag, number, positive, section, text_section
from headway.arithmetic.hf_kin import KIN, in_words_of_kin
from headway.arithmetic.hf_layer_types import layer_types
from headway.arithmetic.shape import Layer, ModelShape, ShapeError

_OWN = (
    "llama",
    "mistral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "mixtral",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "gemma2",
    "gemma3_text",
    "gemma4_text",
    "gpt_oss",
    "llama4_text",
    "glm4_moe",
    "glm_moe_dsa",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "kimi_k2",
    "kimi_linear",
    "mimo_v2_flash",
    "minimax_m1",
    "minimax_m2",
    "minimax_m3",
    "nemotron_h",
)
FAMILIES = (*_OWN, *KIN)
_NOT_MODELLED = ("hidden_size_per_layer_input", "num_kv_shared_layers", "use_double_wide_mlp", "use_cla")
"""Keys that change the layers in a way that no shape here describes, unless they are 0 or false."""


def shape_from_config(config: Mapping[str, Any]) -> ModelShape:
    """Of the text model, where the config describes several. Modules that only predict further tokens are left out.

    Raises ShapeError, naming the key, when the config lacks one or asks for what is not supported.
    """
    nested = text_section(config)
    text: Config = {**config, **nested}
    named = text.get("model_type")
    if named not in FAMILIES:
        raise ShapeError(f"model_type {named!r} is not supported; supported: {', '.join(FAMILIES)}")
    text, family = in_words_of_kin(text, named)
    text = with_defaults(text, family, bool(nested)) if family == named else text
    for key in _NOT_MODELLED:
        if text.get(key):
            raise ShapeError(f"{key} {text[key]!r} is not supported; only 0 or false is")
    own, kinds = _own(text), layer_types(text, family)
    return ModelShape(
        family=named,
        hidden=positive(text, "hidden_size"),
        vocab=positive(text, "vocab_size"),
        layers=tuple(_layer(_of_layer(text, i, own), family, kind, i) for i, kind in enumerate(kinds)),
        tied_embeddings=flag(text, "tie_word_embeddings"),
        norm_eps=number(text, "rms_norm_eps", number(text, "layer_norm_epsilon", 1e-6)),
        max_context=count(text, "max_position_embeddings", "model_max_length") or None,
    )


def _of_layer(config: Config, index: int, own: Mapping[int, Config]) -> Config:
    """With what `per_layer_config` says otherwise of this layer."""
    return {**config, **own[index]} if index in own else config


def _own(config: Config) -> dict[int, Config]:
    """By layer; the keys are numbers, which JSON has as strings."""
    found = section(config, "per_layer_config")
    for key in found:
        if not (str(key).isdecimal() and len(str(key)) < 10):
            raise ShapeError(f"per_layer_config must have layers' numbers for keys, not {key!r}")
    return {int(key): section(found, key) for key in found}


def _layer(config: Config, family: str, kind: str, index: int) -> Layer:
    if family == "nemotron_h":
        mixer = attention(config, family, kind, index) if kind in ("mamba", "attention") else absent(config)
        return Layer(mixer, block_feed_forward(config, kind), norms=1)
    ff = feed_forward(config, family, index)
    norms = count(config, "norms_per_layer") or (4 if family.startswith("gemma") else 2)
    return Layer(
        attention(config, family, kind, index),
        ff,
        norms=norms + 3 * (family == "gemma4_text" and ff.experts is not None),
        streams=count(config, "hc_mult") or 1,
    )
