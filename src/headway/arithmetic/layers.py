"""What a layer is: attention of some kind, then a feed-forward of some kind. All sizes are counts of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AttentionKind = Literal["full", "window", "chunked", "latent", "compressed", "linear", "none"]
"""`full`: every earlier token; `window`: the last `window`; `chunked`: those of the same chunk of `window` tokens;
`latent`: every earlier token through one low-rank vector (MLA); `compressed`: the last `window`, and older tokens as
one entry for each `compress` (DeepSeek V4); `linear`: a state of constant size; `none`: the layer has no attention."""
Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2", "swiglu_oai", "situ"]


class ShapeError(ValueError):
    """A model description that lacks a key, contradicts itself, or names something that is not supported."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding. `scaling` follows the names of Hugging Face's `rope_parameters`."""

    theta: float
    scaling: Literal["default", "linear", "llama3", "yarn", "proportional", "dynamic", "longrope"] = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_context: int = 0
    partial: float = 1.0
    """Share of a head's dimensions that is rotated; 0: no position embedding."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: a token is cached as `rank` values and one rotated key of `rope_dim`."""

    rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class Sparse:
    """Only `topk` cached entries are attended, chosen by an indexer whose keys are cached as well.

    `index_heads` 0: the choice of an earlier layer is used again and no index keys are kept.
    """

    topk: int
    index_heads: int
    index_dim: int


@dataclass(frozen=True, slots=True)
class State:
    """Linear attention or SSM: `value_heads` matrices of key_dim x value_dim, and the tail of a short convolution.

    Mamba-2 in these words: key_heads are its groups, key_dim its state size, value_heads and value_dim its heads.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int = 0
    """Width of the convolution over queries, keys and values; 0: none."""
    gates: int = 0
    """Scalars that each value head gets from the hidden state: decay, step size, write strength."""
    decay_rank: int = 0
    """Rank of the projection that makes one decay for each key dimension (KDA); 0: decay is one of the gates."""
    gate_rank: int = 0
    """Rank of the output gate's projection; 0: full."""
    delta: bool = False
    """The delta rule: what the state already answers to a key is subtracted before the value is written."""

    @property
    def queries_keys_values(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def values(self) -> int:
        return self.value_heads * self.key_dim * self.value_dim

    @property
    def conv_values(self) -> int:
        return self.queries_keys_values * max(0, self.conv - 1)


@dataclass(frozen=True, slots=True)
class Attention:
    kind: AttentionKind
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope: Rope
    window: int = 0
    """Tokens that a position sees, itself included (`chunked`: length of a chunk); 0 where the kind has no window."""
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    wide_qk_norm: bool = False
    """The norm of queries and keys has a weight for every head instead of one shared by all."""
    shared_kv: bool = False
    """Keys are the values: one tensor is projected and cached."""
    output_gate: bool = False
    sinks: bool = False
    own_value_dim: int = 0
    """Size of a head's values, where it is not that of its keys."""
    query_rank: int = 0
    """Rank of a two-step query projection; 0: one step."""
    output_rank: int = 0
    """Rank of a two-step output projection, for each of `output_groups` groups of heads; 0: one step."""
    output_groups: int = 1
    compress: int = 0
    latent: Latent | None = None
    sparse: Sparse | None = None
    state: State | None = None

    @property
    def value_dim(self) -> int:
        return self.latent.value_dim if self.latent else self.own_value_dim or self.head_dim

    @property
    def kv_values_per_token(self) -> int:
        """Values that one cached entry holds, index keys and constant state left out."""
        if self.kind in ("linear", "none"):
            return 0
        if self.latent:
            return self.latent.rank + self.latent.rope_dim
        return self.num_kv_heads * (self.head_dim if self.shared_kv else self.head_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts: each token passes through `active` of `total`."""

    total: int
    active: int
    inner: int
    bias: bool = False
    router_bias: bool = False
    latent: int = 0
    """Width in which the routed experts work, between a shared down and up projection; 0: the hidden size."""
    shared_gate: bool = False
    """A learned scalar weighs what the shared expert gives."""


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Gated: down(act(gate(x)) * up(x)); else down(act(up(x))).

    `inner` is the width that every token passes: the dense layer, or the shared experts together; 0: there is none.
    """

    inner: int
    activation: Activation = "silu"
    bias: bool = False
    gated: bool = True
    experts: Experts | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    attention: Attention
    feed_forward: FeedForward
    norms: int = 2
    """Norms over the hidden size."""
    streams: int = 1
    """Residual streams that are mixed before and after each half (hyper-connections)."""
