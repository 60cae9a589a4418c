"""Families whose layers are those of another family under other names: what their `config.json` says, in its words.

Source: the classes of transformers 5.24.0 (models/*/configuration_*.py, modeling_*.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.arithmetic.hf_keys import Config
from headway.arithmetic.hf_layer_types import num_layers


@dataclass(frozen=True, slots=True)
class Kin:
    """`says`: what the class fixes or takes for what the file leaves out, in the words of `like`. `renamed`: its key,
    and those of `like`.
    """

    like: str
    says: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    block: str = ""
    """Of a family of blocks: the letter of every one."""


_QK_NORM = {"use_qk_norm": True}
_WIDE_QK_NORM = {**_QK_NORM, "qk_norm_type": "per_layer"}
_ONE_IN_FOUR = {"sliding_window": 4096, "sliding_window_pattern": 4}
_BIASED_NORMS = {"norms_per_layer": 4}
"""Two, with a bias each."""
_NOT_GATED = {"mlp_gated": False}
_GLM = {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True, "attention_out_bias": False}
_QWEN_VL = {"num_key_value_heads": 8, "sliding_window": 4096, "max_window_layers": 80}
_BIASES = {"use_bias": ("attention_bias", "mlp_bias")}
_LAYER_NORM = {"layer_norm_eps": ("rms_norm_eps",), "norm_eps": ("rms_norm_eps",), "norm_epsilon": ("rms_norm_eps",)}
_SHARED = {"shared_intermediate_size": ("moe_shared_expert_intermediate_size",)}
_MAMBA = {
    "mamba_n_heads": ("mamba_num_heads",),
    "mamba_d_head": ("mamba_head_dim",),
    "mamba_n_groups": ("n_groups",),
    "mamba_d_state": ("ssm_state_size",),
    "mamba_d_conv": ("conv_kernel",),
}
KIN: Mapping[str, Kin] = {
    "afmoe": Kin(
        "mixtral",
        {
            **_QK_NORM,
            "attn_output_gate": True,
            "router_bias": True,
            "norms_per_layer": 4,
            "head_dim": 128,
            "sliding_window": 1024,
            "sliding_window_pattern": 4,
            "num_shared_experts": 2,
            "first_k_dense_replace": 1,
        },
        {"num_dense_layers": ("first_k_dense_replace",), "global_attn_every_n_layers": ("sliding_window_pattern",)},
    ),
    "arcee": Kin("llama", {**_NOT_GATED, "hidden_act": "relu2"}),
    "baichuan": Kin("llama", {}, {"model_max_length": ("max_position_embeddings",)}),
    "cohere": Kin(
        "llama", {"norms_per_layer": 1, "qk_norm_type": "per_layer", "tie_word_embeddings": True}, _LAYER_NORM
    ),
    "cohere2": Kin("llama", {**_ONE_IN_FOUR, "norms_per_layer": 1, "tie_word_embeddings": True}, _LAYER_NORM),
    "dots1": Kin("glm4_moe", {**_QK_NORM, "num_key_value_heads": 32}),
    "ernie4_5": Kin("llama", {"num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": True}, _BIASES),
    "ernie4_5_moe": Kin(
        "mixtral",
        {
            "router_bias": True,
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
            "first_k_dense_replace": 1,
            "n_shared_experts": 2,
        },
        {
            **_BIASES,
            "moe_num_experts": ("num_experts",),
            "moe_k": ("num_experts_per_tok",),
            "moe_num_shared_experts": ("n_shared_experts",),
            "moe_layer_start_index": ("first_k_dense_replace",),
        },
    ),
    "exaone": Kin(
        "llama",
        {},
        {
            "num_layers": ("num_hidden_layers",),
            "activation_function": ("hidden_act",),
            "layer_norm_epsilon": ("rms_norm_eps",),
        },
    ),
    "exaone4": Kin("llama", {**_QK_NORM, **_ONE_IN_FOUR, "num_key_value_heads": 32}),
    "exaone_moe": Kin(
        "glm4_moe",
        {**_QK_NORM, **_ONE_IN_FOUR, "num_key_value_heads": 32, "first_k_dense_replace": 1, "num_shared_experts": 1},
    ),
    "gemma": Kin("llama", {"num_key_value_heads": 16, "head_dim": 256, "tie_word_embeddings": True}),
    "glm": Kin("llama", _GLM),
    "glm4": Kin("llama", {**_GLM, "norms_per_layer": 4}),
    "glm4_moe_lite": Kin("deepseek_v3", {"n_shared_experts": 1, "q_lora_rank": 768, "first_k_dense_replace": 1}),
    "glm4v_moe_text": Kin(
        "glm4_moe",
        {"num_key_value_heads": 8, "attention_bias": True, "first_k_dense_replace": 1, "n_shared_experts": 1},
    ),
    "glm4v_text": Kin("llama", {**_GLM, "head_dim": None, "norms_per_layer": 4}),
    "granite": Kin("llama"),
    "granitemoe": Kin("mixtral"),
    "granitemoehybrid": Kin(
        "mixtral",
        {
            "moe_shared_expert_intermediate_size": 1024,
            "mamba_expand": 2,
            "mamba_num_heads": 128,
            "mamba_head_dim": "auto",
            "n_groups": 1,
            "ssm_state_size": 256,
            "conv_kernel": 4,
        },
        {**_MAMBA, **_SHARED},
    ),
    "granitemoeshared": Kin("mixtral", {}, _SHARED),
    "hunyuan_v1_dense": Kin("llama", _QK_NORM),
    "hunyuan_v1_moe": Kin("mixtral", {**_QK_NORM, "n_shared_experts": 1}, {"moe_topk": ("num_experts_per_tok",)}),
    "hy_v3": Kin(
        "glm4_moe",
        {**_QK_NORM, "num_key_value_heads": 8, "head_dim": 128, "num_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "internlm2": Kin("llama"),
    "mamba2": Kin(
        "nemotron_h",
        {"mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4},
        {"num_heads": ("mamba_num_heads",), "head_dim": ("mamba_head_dim",), "state_size": ("ssm_state_size",)},
        block="M",
    ),
    "minimax": Kin("minimax_m1", {"num_key_value_heads": 8}),
    "minimax_text_01": Kin("minimax_m1"),
    "ministral": Kin("mistral", {"num_key_value_heads": 8, "sliding_window": 4096}),
    "ministral3": Kin("mistral", {"num_key_value_heads": 8, "head_dim": 128}),
    "mistral4": Kin("deepseek_v3", {"n_shared_experts": 1, "q_lora_rank": 1024}),
    "nemotron": Kin("llama", {**_NOT_GATED, **_BIASED_NORMS, "hidden_act": "relu2"}, _LAYER_NORM),
    "olmo2": Kin("llama", _WIDE_QK_NORM),
    "olmo3": Kin("llama", {**_WIDE_QK_NORM, **_ONE_IN_FOUR}),
    "olmoe": Kin("mixtral", _WIDE_QK_NORM),
    "phi3": Kin("mistral"),
    "phimoe": Kin("mixtral", {**_BIASED_NORMS, "num_key_value_heads": 8}),
    "qwen2_5_omni_text": Kin("qwen2", {"num_key_value_heads": 4, "sliding_window": 32_768, "max_window_layers": 28}),
    "qwen2_5_vl": Kin("qwen2", _QWEN_VL),
    "qwen2_5_vl_text": Kin("qwen2", _QWEN_VL),
    "qwen2_vl": Kin("qwen2", _QWEN_VL),
    "qwen2_vl_text": Kin("qwen2", _QWEN_VL),
    "qwen3_omni_moe_text": Kin("qwen3_moe", {"num_key_value_heads": 4}),
    "qwen3_vl_moe_text": Kin("qwen3_moe", {"num_key_value_heads": 16}),
    "qwen3_vl_text": Kin("qwen3", {"num_key_value_heads": 32, "head_dim": 128}),
    "seed_oss": Kin(
        "llama", {"num_key_value_heads": 8, "head_dim": 128, "attention_bias": True, "attention_out_bias": False}
    ),
    "smollm3": Kin("llama", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    "solar_open": Kin("glm4_moe", {"num_key_value_heads": 8, "head_dim": 128, "n_shared_experts": 1}),
    "starcoder2": Kin(
        "mistral",
        {
            **_NOT_GATED,
            **_BIASED_NORMS,
            "num_key_value_heads": 2,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
        },
        {**_BIASES, **_LAYER_NORM},
    ),
}
"""By `model_type`."""


def in_words_of_kin(config: Config, family: str) -> tuple[Config, str]:
    """The config as one of the family that it is like, and that family."""
    kin = KIN.get(family)
    if kin is None:
        return config, family
    renamed = {ours: config[key] for key, names in kin.renamed.items() if key in config for ours in names}
    blocks = {"hybrid_override_pattern": kin.block * num_layers(config)} if kin.block else {}
    return {**kin.says, **config, **renamed, **blocks}, kin.like
