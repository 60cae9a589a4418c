"""The weights of a layer, matrix by matrix. Parameters, FLOPs, weight bytes and sharding all follow from this list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from headway.arithmetic.layers import Attention, FeedForward, Layer, State

Part = Literal["attention", "feed_forward", "shared_experts", "experts", "router", "embedding", "head", "norms"]
Split = Literal["heads", "kv_heads", "inner", "experts", "vocab", "none"]
"""What tensor (or expert) parallelism cuts; `none`: every chip of the group has a copy."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """`copies` matrices of inputs x outputs; a token is multiplied with `used` of them. 2 FLOPs a weight and token."""

    name: str
    part: Part
    inputs: int
    outputs: int
    split: Split = "none"
    bias: bool = False
    copies: int = 1
    used: int = 1

    @property
    def params(self) -> int:
        return self.copies * (self.inputs + self.bias) * self.outputs

    @property
    def active_params(self) -> int:
        return self.used * (self.inputs + self.bias) * self.outputs


@lru_cache(maxsize=4096)
def layer_matrices(layer: Layer, hidden: int) -> tuple[Matrix, ...]:
    mixing = layer.streams * (layer.streams + 2)
    streams = [Matrix("stream mixing", "norms", layer.streams * hidden, 2 * mixing)] if layer.streams > 1 else []
    return (
        *attention_matrices(layer.attention, hidden),
        *feed_forward_matrices(layer.feed_forward, hidden),
        *streams,
    )


def attention_matrices(a: Attention, hidden: int) -> tuple[Matrix, ...]:
    if a.kind == "none":
        return ()
    if a.state:
        return tuple(_state(a.state, hidden))
    return (*_queries(a, hidden), *_keys_values(a, hidden), *_indexer(a, hidden), *_output(a, hidden))


def feed_forward_matrices(f: FeedForward, hidden: int) -> tuple[Matrix, ...]:
    part: Part = "shared_experts" if f.experts else "feed_forward"
    ups = 2 if f.gated else 1
    matrices: list[Matrix] = []
    if f.inner:
        matrices.append(Matrix("gate and up", part, hidden, ups * f.inner, "inner", f.bias))
        matrices.append(Matrix("down", part, f.inner, hidden, "inner", f.bias))
    e = f.experts
    if e is None:
        return tuple(matrices)
    width = e.latent or hidden
    if e.latent:
        matrices.append(Matrix("into latent", "shared_experts", hidden, e.latent))
        matrices.append(Matrix("out of latent", "shared_experts", e.latent, hidden))
    if e.shared_gate:
        matrices.append(Matrix("shared gate", "shared_experts", hidden, 1))
    matrices.append(Matrix("router", "router", hidden, e.total, bias=e.router_bias))
    matrices.append(Matrix("expert gate and up", "experts", width, ups * e.inner, "experts", e.bias, e.total, e.active))
    matrices.append(Matrix("expert down", "experts", e.inner, width, "experts", e.bias, e.total, e.active))
    return tuple(matrices)


def vector_params(layer: Layer, hidden: int) -> int:
    """Parameters that are no matrix: norms, attention sinks, convolutions, decay."""
    a = layer.attention
    count = layer.norms * hidden
    if a.state:
        s = a.state
        return count + s.queries_keys_values * s.conv + 2 * s.value_heads + s.value_dim
    if a.kind == "none":
        return count
    if a.qk_norm:
        heads = (a.num_heads + a.num_kv_heads) if a.wide_qk_norm else 2
        count += heads * a.head_dim
    count += a.query_rank + (a.latent.rank if a.latent else 0) + a.num_heads * a.sinks
    return count


def _queries(a: Attention, hidden: int) -> Iterator[Matrix]:
    width = a.num_heads * (a.latent.nope_dim + a.latent.rope_dim if a.latent else a.head_dim)
    if a.query_rank:
        yield Matrix("query down", "attention", hidden, a.query_rank)
    yield Matrix("query", "attention", a.query_rank or hidden, width, "heads", a.qkv_bias)


def _keys_values(a: Attention, hidden: int) -> Iterator[Matrix]:
    if a.latent:
        m = a.latent
        yield Matrix("latent down", "attention", hidden, m.rank + m.rope_dim)
        yield Matrix("latent up", "attention", m.rank, a.num_heads * (m.nope_dim + m.value_dim), "heads")
        return
    yield Matrix("key value", "attention", hidden, a.kv_values_per_token, "kv_heads", a.qkv_bias)
    if a.compress:  # Entries that overlap (those that an indexer chooses from) are made from two projections.
        yield Matrix("compressor", "attention", hidden, 2 * a.head_dim * (2 if a.sparse else 1))


def _indexer(a: Attention, hidden: int) -> Iterator[Matrix]:
    s = a.sparse
    if s is None or not s.index_heads:
        return
    yield Matrix("index query", "attention", a.query_rank or hidden, s.index_heads * s.index_dim)
    yield Matrix("index key", "attention", hidden, s.index_dim * (4 if a.compress else 1))
    if a.query_rank:
        yield Matrix("index weights", "attention", hidden, s.index_heads)


def _output(a: Attention, hidden: int) -> Iterator[Matrix]:
    width = a.num_heads * a.value_dim
    if a.output_gate:
        yield Matrix("output gate", "attention", hidden, width, "heads")
    if a.output_rank:
        rank, groups = a.output_rank, a.output_groups
        yield Matrix("output down", "attention", width // groups, rank, "heads", copies=groups, used=groups)
        width = rank * groups
    yield Matrix("output", "attention", width, hidden, "heads", a.output_bias)


def _state(s: State, hidden: int) -> Iterator[Matrix]:
    width = s.value_heads * s.value_dim
    yield Matrix("query key value", "attention", hidden, s.queries_keys_values, "heads")
    if s.gate_rank:
        yield Matrix("gate down", "attention", hidden, s.gate_rank)
    yield Matrix("gate", "attention", s.gate_rank or hidden, width, "heads")
    if s.gates:
        yield Matrix("head gates", "attention", hidden, s.gates * s.value_heads, "heads")
    if s.decay_rank:
        yield Matrix("decay down", "attention", hidden, s.decay_rank)
        yield Matrix("decay", "attention", s.decay_rank, s.key_heads * s.key_dim, "heads")
    yield Matrix("output", "attention", width, hidden, "heads")
