"""Bytes of cache as a function of length: windows saturate, constant state does not grow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.arithmetic.attends import attends
from headway.arithmetic.formats import Format, Precision
from headway.arithmetic.layers import Attention
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.spans import Ints


@dataclass(frozen=True, slots=True)
class CacheTerm:
    """`layers` layers keep `values` values for each stored entry; every `every` tokens make one; `limit` tokens at most
    (0: no limit). A constant state has `every` 0.
    """

    name: str
    layers: int
    values: int
    every: int
    limit: int
    format: Format
    kv_heads: int = 1
    """Heads by which tensor parallelism can cut it."""

    def size_bytes(self, length: int) -> int:
        entries = 1 if not self.every else (min(length, self.limit) if self.limit else length) // self.every
        return self.layers * self.format.size_bytes(entries * self.values)

    def common_bytes(self, length: int, shared: int) -> int:
        """Of those, what is of the first `shared` tokens."""
        if not self.every:
            return 0
        left = max(0, length - self.limit) if self.limit else 0
        return self.layers * self.format.size_bytes(max(0, min(shared, length) - left) // self.every * self.values)

    @property
    def grows(self) -> bool:
        return self.every > 0 and not self.limit


def cache_terms(model: ModelShape, precision: Precision) -> tuple[CacheTerm, ...]:
    """Every kind of cached thing, by distinct layer."""
    terms: list[CacheTerm] = []
    for layer, layers in model.layer_counts:
        terms.extend(_terms(layer.attention, layers, precision))
    return tuple(terms)


def kv_bytes(model: ModelShape, length: int, precision: Precision) -> int:
    """Of one sequence of `length` tokens, all layers, constant state included."""
    return sum(term.size_bytes(length) for term in cache_terms(model, precision))


def kv_bytes_per_token(model: ModelShape, precision: Precision) -> float:
    """What each further token adds once every window is full."""
    return sum(
        t.layers * t.values * t.format.bits_per_value / 8 / t.every for t in cache_terms(model, precision) if t.grows
    )


def kv_bytes_constant(model: ModelShape, precision: Precision) -> int:
    """What a long sequence needs beside that: full windows and states."""
    return sum(t.size_bytes(t.limit) for t in cache_terms(model, precision) if not t.grows)


def kv_bytes_per_layer(model: ModelShape, lengths: Ints, precision: Precision) -> Ints:
    """[layers, *lengths.shape] bytes."""
    table = {
        layer: [sum(t.size_bytes(int(n)) for t in _terms(layer.attention, 1, precision)) for n in lengths.ravel()]
        for layer, _ in model.layer_counts
    }
    return np.array([table[layer] for layer in model.layers], np.int64).reshape(len(model.layers), *lengths.shape)


def _terms(a: Attention, layers: int, precision: Precision) -> list[CacheTerm]:
    if a.state:
        heads = a.state.value_heads
        state = CacheTerm("state", layers, a.state.values, 0, 0, precision.state, heads)
        conv = CacheTerm("convolution", layers, a.state.conv_values, 0, 0, precision.small, heads)
        return [state, conv] if a.state.conv else [state]
    return [
        CacheTerm(part.name, layers, part.values, part.span.every, part.span.window, precision.kv, part.kv_heads)
        for part in attends(a)
    ]
