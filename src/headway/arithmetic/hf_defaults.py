"""What `transformers` takes for keys that a `config.json` leaves out: the defaults of its configuration classes.

Source: the classes of transformers 5.24.0 (models/*/configuration_*.py). Of kimi_k2, minimax_m1 and
minimax_m3 it has none under these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.arithmetic.hf_keys import Config

_GEMMA = {
    "head_dim": 256,
    "num_key_value_heads": 4,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
    "hidden_activation": "gelu_pytorch_tanh",
}
_DEEPSEEK = {"first_k_dense_replace": 3, "n_shared_experts": 1, "q_lora_rank": 1536}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28},
    "qwen2_moe": {
        "num_key_value_heads": 16,
        "sliding_window": 4096,
        "max_window_layers": 28,
        "shared_expert_intermediate_size": 5632,
    },
    "qwen3": {"head_dim": 128, "num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28},
    "mixtral": {"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6},
    "qwen3_moe": {"num_key_value_heads": 4, "sliding_window": 4096},
    "qwen3_next": {"head_dim": 256, "num_key_value_heads": 2, "shared_expert_intermediate_size": 512},
    "qwen3_5_text": {"head_dim": 256, "num_key_value_heads": 4},
    "qwen3_5_moe_text": {"head_dim": 256, "num_key_value_heads": 2},
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "gemma4_text": {**_GEMMA, "sliding_window": 512},
    "gpt_oss": {
        "head_dim": 64,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "attention_bias": True,
        "rms_norm_eps": 1e-5,
        "rope_theta": 150_000.0,
    },
    "llama4_text": {
        "head_dim": 128,
        "num_key_value_heads": 8,
        "attention_chunk_size": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
    },
    "glm4_moe": {"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "first_k_dense_replace": 1, "n_shared_experts": 1},
    "glm_moe_dsa": {"rms_norm_eps": 1e-5, **_DEEPSEEK, "q_lora_rank": 2048},
    "deepseek_v2": {"n_shared_experts": 2, "q_lora_rank": 1536},
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "deepseek_v4": {"head_dim": 512, "sliding_window": 128, "n_shared_experts": 1, "hc_mult": 4},
    "kimi_linear": {"rms_norm_eps": 1e-5},
    "mimo_v2_flash": {
        "head_dim": 192,
        "v_head_dim": 128,
        "num_key_value_heads": 4,
        "sliding_window": 129,
        "rms_norm_eps": 1e-5,
    },
    "minimax_m2": {"head_dim": 128, "num_key_value_heads": 8, "rope_theta": 5e6},
    "nemotron_h": {
        "head_dim": 128,
        "num_key_value_heads": 8,
        "mlp_hidden_act": "relu2",
        "n_shared_experts": 1,
        "layer_norm_epsilon": 1e-5,
    },
}
"""By `model_type`."""
_SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
)
_LINEAR = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
_QWEN_3_5_EXPERTS = {
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
}
_SCOUT = {"intermediate_size_mlp": 16_384, "num_local_experts": 16, "num_experts_per_tok": 1}
NESTED: Mapping[str, Mapping[str, Any]] = {
    "llama": dict(zip(_SIZES, (4096, 32, 32, 11_008, 32_000, 2048), strict=True)),
    "mistral": dict(zip(_SIZES, (4096, 32, 32, 14_336, 32_000, 131_072), strict=True)),
    "qwen2": dict(zip(_SIZES, (4096, 32, 32, 22_016, 151_936, 32_768), strict=True)),
    "qwen3": dict(zip(_SIZES, (4096, 32, 32, 22_016, 151_936, 32_768), strict=True)),
    "qwen3_moe": dict(zip(_SIZES, (2048, 24, 32, 6144, 151_936, 32_768), strict=True))
    | {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
    "gpt_oss": dict(zip(_SIZES, (2880, 36, 64, 2880, 201_088, 131_072), strict=True))
    | {"num_local_experts": 128, "num_experts_per_tok": 4},
    "gemma2": dict(zip(_SIZES, (2304, 26, 8, 9216, 256_000, 8192), strict=True)),
    "gemma3_text": dict(zip(_SIZES, (2304, 26, 8, 9216, 262_208, 131_072), strict=True)),
    "gemma4_text": dict(zip(_SIZES, (2304, 30, 8, 9216, 262_144, 131_072), strict=True))
    | {"hidden_size_per_layer_input": 256},
    "llama4_text": dict(zip(_SIZES, (5120, 48, 40, 8192, 202_048, 131_072), strict=True)) | _SCOUT,
    "qwen3_5_text": dict(zip(_SIZES, (4096, 32, 16, 12_288, 248_320, 32_768), strict=True)) | _LINEAR,
    "qwen3_5_moe_text": {
        "hidden_size": 2048,
        "num_hidden_layers": 40,
        "num_attention_heads": 16,
        "vocab_size": 248_320,
        "max_position_embeddings": 32_768,
        **_LINEAR,
        **_QWEN_3_5_EXPERTS,
    },
}
"""The sizes, of families that are a `text_config` in a larger file: a nested section is saved as its differences from
the class. A file's own keys are all saved, so a size that it lacks is a mistake and no default.
"""


def with_defaults(config: Config, family: str, is_nested: bool) -> Config:
    """What is null stays so: `transformers` tells it from what is absent."""
    return {**(NESTED.get(family, {}) if is_nested else {}), **DEFAULTS.get(family, {}), **config}
