"""The key-value part of a GGUF file, and the Hugging Face config that it amounts to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headway.engine.errors import ModelError


class Metadata:
    """Values by key, each of a wanted type."""

    def __init__(self, path: Path, reader: Any) -> None:
        self.path = path
        self._fields = reader.fields

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The value, or the default where there is none. Raises ModelError for a value of another type."""
        if key not in self._fields:
            return default
        value = self._fields[key].contents()
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ModelError(f"{self.path}: {key} must be {kind.__name__}, not {type(value).__name__}")
        return value

    def require(self, key: str, kind: type) -> Any:
        value = self.get(key, kind)
        if value is None:
            raise ModelError(f"{self.path}: {key} is missing")
        return value


def llama_config(metadata: Metadata, *, tied: bool, special: list[str]) -> dict[str, Any]:
    """`special` are tensors that this conversion would lose. Raises ModelError for what it cannot express."""
    architecture = metadata.require("general.architecture", str)
    if architecture != "llama":
        raise ModelError(f"{metadata.path}: architecture {architecture!r} is not supported in GGUF; supported: llama")
    if special:
        raise ModelError(f"{metadata.path}: tensor {special[0]} is not supported; use the model's safetensors files")
    heads = metadata.require("llama.attention.head_count", int)
    hidden = metadata.require("llama.embedding_length", int)
    if heads < 1:
        raise ModelError(f"{metadata.path}: llama.attention.head_count must be positive, not {heads}")
    head_dim = metadata.get("llama.attention.key_length", int, hidden // heads)
    for key in ("llama.rope.dimension_count", "llama.attention.value_length"):
        if metadata.get(key, int, head_dim) != head_dim:
            raise ModelError(f"{metadata.path}: {key} must equal the head size {head_dim}")
    eos = metadata.get("tokenizer.ggml.eos_token_id", int)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": metadata.require("llama.block_count", int),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.get("llama.attention.head_count_kv", int, heads),
        "head_dim": head_dim,
        "intermediate_size": metadata.require("llama.feed_forward_length", int),
        "vocab_size": len(metadata.require("tokenizer.ggml.tokens", list)),
        "max_position_embeddings": metadata.require("llama.context_length", int),
        "rms_norm_eps": _shortest(metadata.require("llama.attention.layer_norm_rms_epsilon", float)),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id", int),
        "eos_token_id": eos,
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id", int),
        **_rope(metadata),
    }


def _rope(metadata: Metadata) -> dict[str, Any]:
    """Under the name that transformers 5 reads and under those that came before."""
    theta = _shortest(metadata.get("llama.rope.freq_base", float, 10000.0))
    kind = metadata.get("llama.rope.scaling.type", str, "none")
    if kind == "none":
        return {"rope_theta": theta, "rope_parameters": {"rope_type": "default", "rope_theta": theta}}
    if kind != "linear":
        raise ModelError(f"{metadata.path}: rope scaling {kind!r} is not supported in GGUF; supported: none, linear")
    scaling = {"rope_type": "linear", "factor": metadata.require("llama.rope.scaling.factor", float)}
    return {"rope_theta": theta, "rope_scaling": scaling, "rope_parameters": {**scaling, "rope_theta": theta}}


def _shortest(value: float) -> float:
    """GGUF holds fp32: 1e-5 comes as 9.999999747378752e-06."""
    return float(str(np.float32(value)))
