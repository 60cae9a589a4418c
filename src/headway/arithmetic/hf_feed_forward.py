"""The feed-forward of each layer from a `config.json`: dense, or routed experts beside what every token passes."""

from __future__ import annotations

from typing import Any

from headway.arithmetic.hf_keys import Config, count, entries, flag, named, positive
from headway.arithmetic.layers import Activation, Experts, FeedForward, ShapeError

_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "swigluoai": "swiglu_oai",
    "situ": "situ",
}
_TOTAL = ("num_experts", "n_routed_experts", "num_local_experts")
_SHARED = "moe_shared_expert_intermediate_size"
_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts")
_ROUTED = (
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_5_moe_text",
    "mimo_v2_flash",
    "minimax_m1",
    "minimax_m2",
    "minimax_m3",
    "glm4_moe",
    "glm_moe_dsa",
    "gpt_oss",
    "gemma4_text",
    "llama4_text",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "kimi_k2",
    "kimi_linear",
)


_UNBIASED_ROUTER = ("mixtral", "llama4_text", "gemma4_text", "deepseek_v2")
_BY_LAYER = ("num_experts_per_tok", "moe_intermediate_size")
"""Which Hunyuan gives for each layer."""


def feed_forward(config: Config, family: str, index: int) -> FeedForward:
    """Raises ShapeError naming the key."""
    activation = _activation(config, family)
    bias, gated = flag(config, "mlp_bias"), flag(config, "mlp_gated", True)
    if family not in _ROUTED or _dense(config, family, index):
        return FeedForward(_dense_width(config, family), activation, bias, gated)
    if config.get("num_local_experts") == 0 and (shared := count(config, _SHARED)):  # Granite 4 without experts.
        return FeedForward(shared, activation, bias, gated)
    experts = _experts(config, family)
    return FeedForward(_shared_width(config, family, experts), activation, bias, experts=experts)


def block_feed_forward(config: Config, block: str) -> FeedForward:
    """Of a `nemotron_h` block, which has a mixer or a feed-forward but not both."""
    activation = _activation(config, "nemotron_h")
    bias = flag(config, "mlp_bias")
    if block == "mlp":
        return FeedForward(positive(config, "intermediate_size"), activation, bias, gated=False)
    if block != "moe":
        return FeedForward(0, activation)
    experts = _experts(config, "nemotron_h")
    return FeedForward(_shared_width(config, "nemotron_h", experts), activation, bias, False, experts)


def _activation(config: Config, family: str) -> Activation:
    if family == "gpt_oss":
        return "swiglu_oai"
    for key in ("hidden_activation", "hidden_act", "mlp_hidden_act"):
        if config.get(key) is not None:
            name = named(config, key, "")
            if name not in _ACTIVATIONS:
                raise ShapeError(f"{key} {name!r} is not supported; supported: {', '.join(_ACTIVATIONS)}")
            return _ACTIVATIONS[name]
    return "silu"


def _dense(config: Config, family: str, index: int) -> bool:
    kinds = entries(config, "mlp_layer_types")
    if index < len(kinds):
        return bool(kinds[index] == "dense")
    if index < count(config, "first_k_dense_replace"):
        return True
    if family == "gemma4_text":
        return not flag(config, "enable_moe_block")
    if family == "llama4_text":
        if config.get("moe_layers") is not None:
            return index not in entries(config, "moe_layers")
        return (index + 1) % (count(config, "interleave_moe_layer_step") or 1) != 0
    if family.startswith("qwen"):
        only_dense = index in entries(config, "mlp_only_layers")
        return only_dense or (index + 1) % (count(config, "decoder_sparse_step") or 1) != 0
    if family == "mimo_v2_flash" and config.get("moe_layer_freq") is None:
        return index == 0
    every = config.get("moe_layer_freq", 1)
    if isinstance(every, list):
        return index < len(every) and not every[index]
    return index % (count(config, "moe_layer_freq") or 1) != 0


def _dense_width(config: Config, family: str) -> int:
    if family == "llama4_text":
        return positive(config, "intermediate_size_mlp")
    if family == "minimax_m3":
        return positive(config, "dense_intermediate_size")
    return positive(config, "intermediate_size")


def _experts(config: Config, family: str) -> Experts:
    config = {**config, **{key: _alike(config, key) for key in _BY_LAYER if isinstance(config.get(key), list)}}
    total, active = positive(config, *_TOTAL), positive(config, *_ACTIVE)
    if active > total:
        raise ShapeError(f"{active} experts for each token are more than the {total} that there are")
    return Experts(
        total=total,
        active=active,
        inner=positive(config, "moe_intermediate_size", "intermediate_size"),
        bias=family == "gpt_oss",
        router_bias=flag(config, "router_bias", family not in _UNBIASED_ROUTER and not family.startswith("qwen")),
        latent=count(config, "routed_expert_hidden_size", "moe_latent_size"),
        shared_gate=bool(config.get("shared_expert_intermediate_size")),
    )


def _shared_width(config: Config, family: str, experts: Experts) -> int:
    if family in ("llama4_text", "gemma4_text"):
        return positive(config, "intermediate_size")
    named = count(config, "shared_expert_intermediate_size", _SHARED)
    if named:
        return named
    shared = count(config, "n_shared_experts", "num_shared_experts")
    return shared * (count(config, "shared_intermediate_size") or experts.inner)


def _alike(config: Config, key: str) -> Any:
    """Of a list that says the same of every layer. Raises ShapeError for another."""
    values = entries(config, key)
    if not values or any(value != values[0] for value in values):
        raise ShapeError(f"{key} must be the same in every layer, not {values!r:.60}")
    return values[0]
