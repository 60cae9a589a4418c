"""A random Llama of two layers over bytes, written without torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HIDDEN, INNER, HEAD, VOCAB, CONTEXT = 32, 64, 16, 257, 2048


def write_tiny_model(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": HEAD,
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "eos_token_id": VOCAB - 1,
    }
    (directory / "config.json").write_text(json.dumps(config))
    save_file(_weights(), directory / "model.safetensors")
    _tokenizer().save(str(directory / "tokenizer.json"))
    return directory


def _weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.normal(0, 0.2, (rows, columns)).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(VOCAB, HIDDEN), "model.norm.weight": np.ones(HIDDEN, np.float32)}
    for layer in ("model.layers.0.", "model.layers.1."):
        weights |= {
            f"{layer}input_layernorm.weight": np.ones(HIDDEN, np.float32),
            f"{layer}post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
            f"{layer}self_attn.q_proj.weight": matrix(2 * HEAD, HIDDEN),
            f"{layer}self_attn.k_proj.weight": matrix(HEAD, HIDDEN),
            f"{layer}self_attn.v_proj.weight": matrix(HEAD, HIDDEN),
            f"{layer}self_attn.o_proj.weight": matrix(HIDDEN, 2 * HEAD),
            f"{layer}mlp.gate_proj.weight": matrix(INNER, HIDDEN),
            f"{layer}mlp.up_proj.weight": matrix(INNER, HIDDEN),
            f"{layer}mlp.down_proj.weight": matrix(HIDDEN, INNER),
        }
    return weights


def _tokenizer() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: id for id, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer
