"""Does it fit: weights and cache against a chip's memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip, weight_bytes_per_chip
from headway.arithmetic.shape import ModelShape
from headway.catalog import Chip


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """On the fullest chip. What activations and the runtime need is left out of `weights` and `kv`: see `usable`."""

    weights_bytes: float
    kv_bytes: float
    usable_bytes: float
    max_batch: int
    """Sequences of this length that fit beside the weights, on the whole replica."""

    @property
    def fits(self) -> bool:
        return self.weights_bytes + self.kv_bytes <= self.usable_bytes


def memory_plan(
    model: ModelShape,
    chip: Chip,
    length: int,
    batch: int,
    precision: Precision,
    cut: Parallelism,
    usable: float = 0.9,
    shared: int = 0,
) -> MemoryPlan:
    """`usable`: share of the chip's memory that weights and cache may take. `shared`: tokens at the start that every
    sequence of a group has in common.
    """
    weights = weight_bytes_per_chip(model, precision, cut)
    one, two = (kv_bytes_per_chip(model, length, n * cut.data, precision, cut, shared) for n in (1, 2))
    room = chip.hbm_bytes * usable - weights - (2 * one - two)
    per_group = math.floor(room / (two - one)) if room > 0 and two > one else 0
    return MemoryPlan(
        weights,
        kv_bytes_per_chip(model, length, batch, precision, cut, shared),
        chip.hbm_bytes * usable,
        max(0, per_group) * cut.data,
    )


def chips_for_bytes(size_bytes: float, chip: Chip) -> float:
    """As a fraction: whole chips are the next integer, whole systems more."""
    return size_bytes / chip.hbm_bytes


def length_where_kv_reaches(model: ModelShape, size_bytes: float, precision: Precision) -> int | None:
    """Shortest sequence whose cache takes at least `size_bytes`; None if no length does."""
    low, high = 0, 1
    while kv_bytes(model, high, precision) < size_bytes:
        low, high = high, high * 2
        if high > 1 << 50:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kv_bytes(model, middle, precision) >= size_bytes else (middle, high)
    return high
