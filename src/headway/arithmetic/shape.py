"""ModelShape: what one description of a model says, layer by layer. The priced model and the run model are this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AttentionKind = Literal["full", "window"]


class ShapeError(ValueError):
    """A model description that lacks a key, contradicts itself, or names something that is not supported."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding. `scaling` follows the names of Hugging Face's `rope_parameters`."""

    theta: float
    scaling: Literal["default", "linear", "llama3"] = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_context: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    kind: AttentionKind
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope: Rope
    window: int = 0
    """Tokens that a position sees, itself included; 0 where the kind has no window."""
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False

    @property
    def kv_values_per_token(self) -> int:
        return 2 * self.num_kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Dense and gated: down(act(gate(x)) * up(x))."""

    inner: int
    activation: Literal["silu", "gelu_tanh"] = "silu"
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    attention: Attention
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class ModelShape:
    family: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    norm_eps: float
    max_context: int

    @property
    def num_params(self) -> int:
        """Every weight once: embedding, layers with their norms, final norm, and the head unless it is tied."""
        embedding = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return embedding + self.hidden + sum(_layer_params(layer, self.hidden) for layer in self.layers)

    @property
    def kv_values_per_token(self) -> int:
        return sum(layer.attention.kv_values_per_token for layer in self.layers)


def _layer_params(layer: Layer, hidden: int) -> int:
    a, f = layer.attention, layer.feed_forward
    q, kv = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
    attention = hidden * (q + 2 * kv) + q * hidden
    attention += (q + 2 * kv) * a.qkv_bias + hidden * a.output_bias + 2 * a.head_dim * a.qk_norm
    feed_forward = 3 * hidden * f.inner + (2 * f.inner + hidden) * f.bias
    return attention + feed_forward + 2 * hidden
