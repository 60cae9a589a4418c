"""Small random models of each family, as transformers saves them, and Headway's executor for them."""

from __future__ import annotations

import numpy as np
import torch
import transformers
from torch_planner import Planner

from headway.engine.kv_cache import cache_groups
from headway.engine.loading import load

SMALL = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": 5,
}


def rope(kind: str, **more: float) -> dict:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
CASES = {
    "llama": ("LlamaConfig", {}),
    "llama-tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "llama-mqa": ("LlamaConfig", {"num_key_value_heads": 1}),
    "llama-mha": ("LlamaConfig", {"num_key_value_heads": 6}),
    "llama-head-dim": ("LlamaConfig", {"head_dim": 24}),
    "llama-biases": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}),
    "llama-gelu": ("LlamaConfig", {"hidden_act": "gelu_pytorch_tanh"}),
    "llama-linear-rope": ("LlamaConfig", rope("linear", factor=4.0)),
    "llama-llama3-rope": ("LlamaConfig", LLAMA3),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral-window": ("MistralConfig", {"sliding_window": 21}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2-mixed": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "qwen3-tied": ("Qwen3Config", {"head_dim": 8, "tie_word_embeddings": True}),
}


def save_random(directory, case: str, **more):
    """A transformers model with random weights, biases and norms included, saved and returned."""
    name, changes = CASES[case]
    config = getattr(transformers, name)(**{**SMALL, **changes, **more})
    torch.manual_seed(len(case))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.5)
        elif "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.save_pretrained(directory)
    return model


def loaded(directory, **more):
    return load(
        directory,
        **{"dtype": "float32", "device": "cpu", "block_size": 8, "max_running": 16, "kv_bytes": 2**22, **more},
    )


def planner(model, seed: int = 0) -> Planner:
    return Planner(
        model.executor, cache_groups(model.shape), [g.num_blocks for g in model.groups], model.block_size, seed
    )


def random_tokens(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, SMALL["vocab_size"], count).tolist()


def expected_logits(reference, tokens) -> torch.Tensor:
    """[len(tokens), vocab]."""
    with torch.inference_mode():
        return reference(torch.tensor([tokens])).logits[0]
