"""Attention on one kind of chip, feed-forward on another: each side's operations at their floors, hops, a pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.matrices import Part
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.arithmetic.work import Op, StepWork
from headway.catalog import Link, System
from headway.roofline.floor import rate_flops_per_s

FEED_FORWARD: tuple[Part, ...] = ("feed_forward", "experts", "shared_experts")
"""What moves; cache, embedding and head stay with attention, and the router, which says where a token goes."""
MAX_MICRO_BATCHES = 16


class SideTime(NamedTuple):
    """Of one micro-batch in all layers, arrays [...]. `busy_s`: each operation takes the longer of the two."""

    compute_s: FloatArray
    memory_s: FloatArray
    busy_s: FloatArray


def side_time(work: StepWork, system: System, feed_forward: bool, chips: int) -> SideTime:
    """Of one side's operations, one after the other, cut evenly over its chips."""
    ops = [op for op in work.ops if (op.part in FEED_FORWARD) == feed_forward]
    pairs = [_op_s(op, system, chips) for op in ops]
    zero = np.float64(0)
    return SideTime(
        np.asarray(sum((compute for compute, _ in pairs), start=zero)),
        np.asarray(sum((memory for _, memory in pairs), start=zero)),
        np.asarray(sum((np.maximum(*pair) for pair in pairs), start=zero)),
    )


def _op_s(op: Op, system: System, chips: int) -> tuple[FloatArray, FloatArray]:
    peak = rate_flops_per_s(system.chip, op.rate) if np.any(op.flops) else 1.0
    return op.flops / peak / chips, op.memory_bytes / system.chip.hbm_bytes_per_s / chips


def hop_link(attention: System, attention_chips: int, feed_forward: System, feed_forward_chips: int) -> Link:
    """The narrower side's links together. Raises ShapeError for a system without any."""
    mine, theirs = _link(attention), _link(feed_forward)
    rate = min(attention_chips * mine.bytes_per_s, feed_forward_chips * theirs.bytes_per_s)
    return Link(rate, max(mine.latency_s or 0.0, theirs.latency_s or 0.0))


def _link(system: System) -> Link:
    link = system.scaleout or system.scaleup or system.host
    if link is None:
        raise ShapeError(f"{system.name} has no link in the catalog: give scaleout_bytes_per_s in a systems.csv")
    return link


def crossings(model: ModelShape) -> int:
    """Layers that have a feed-forward: there and back in each."""
    return sum(1 for layer in model.layers if layer.feed_forward.inner or layer.feed_forward.experts)


def hops_s(link: Link, layers: int, size_bytes: float) -> float:
    """There and back in each layer. `size_bytes`: of a micro-batch, one way."""
    return 2 * layers * ((link.latency_s or 0.0) + size_bytes / link.bytes_per_s)
