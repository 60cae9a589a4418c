"""Attention on one kind of chip, feed-forward on another: hops, micro-batches, pipelining."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.parallelism import MAX_CHIPS, Parallelism, weight_bytes_by_part
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.catalog import CatalogError, Chip, System
from headway.planner.deployment import FLOOR, Deployment
from headway.planner.fitting import USABLE
from headway.planner.uncertain import uncertain_of_several
from headway.roofline import Coefficients, calibrated_cost
from headway.roofline.split import FEED_FORWARD, MAX_MICRO_BATCHES, crossings, hop_link, hops_s, side_time

FORMULAS = (
    "side = sum over its operations of max(FLOPs / peak, bytes / bandwidth) for a micro-batch",
    "hop = latency + micro-batch x hidden x bytes a value / (the narrower side's links together)",
    "pass = layers x max(m x attention, m x feed-forward, attention + feed-forward + 2 hops) for m micro-batches; no "
    "hops in layers without a feed-forward",
    "one system = operations and collectives one after another on the attention's chips, as many as both sides have, "
    "cut by tensor, sequences and experts in the way that is the shortest",
)
ASSUMPTIONS = (
    FLOOR.replace("floor: ", "each operation at its floor: "),
    "attention: sequences are dealt out over its chips, its weights copied; feed-forward: cut evenly over its chips",
    "partial sums of the feed-forward's chips are added on the way back, at no further cost",
    "activations cross in bf16 over every chip's scale-out link (scale-up where there is none)",
    "m micro-batches go round: while one is in the feed-forward another is in attention",
    "the cache sits with attention, embedding and head too",
)


_FORMATS = {"bf16": "bf16", "fp8": "fp8", "mxfp4": "fp4"}


@dataclass(frozen=True, slots=True)
class MicroBatches:
    micro_batches: int
    attention_s: float
    """Of one micro-batch in all layers, as feed-forward and hops."""
    feed_forward_s: float
    hops_s: float
    step_s: float
    bound: str
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class AfdReport:
    model: str
    attention_system: str
    feed_forward_system: str
    attention_chips: int
    feed_forward_chips: int
    weight_format: str
    batch: int
    context_tokens: int
    attention_bytes_per_chip: float
    """Weights and cache."""
    feed_forward_bytes_per_chip: float
    hop_bytes: float
    """Of the whole batch, one way, one layer."""
    best_micro_batches: int
    step_s: float
    interactivity_tokens_per_s: float
    tokens_per_s_per_chip: float
    together_step_s: float | None
    """The whole model on as many of the attention's chips, cut in the best way; None: it does not fit there."""
    speed_up: float | None
    choices: tuple[MicroBatches, ...]
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def common_format(*chips: Chip) -> str:
    """The widest that all of them publish a rate for. Raises CatalogError if there is none."""
    for name, rate in _FORMATS.items():
        if all(getattr(chip, f"{rate}_flops_per_s") is not None for chip in chips):
            return name
    raise CatalogError(f"{' and '.join(chip.name for chip in chips)} have no published rate in common")


def afd_report(
    attention: Deployment,
    feed_forward: System,
    attention_chips: int,
    feed_forward_chips: int,
    batch: int,
    context: int,
) -> AfdReport:
    """`attention`: the model, and the system that keeps the cache; its cut is not used.

    Raises ShapeError if a side does not fit or has no link.
    """
    sides = _held(attention, feed_forward, attention_chips, feed_forward_chips, batch, context)
    choices = tuple(
        _choice(attention, feed_forward, attention_chips, feed_forward_chips, batch, context, m)
        for m in range(1, min(MAX_MICRO_BATCHES, max(1, batch // attention_chips)) + 1)
    )
    best = min(choices, key=lambda choice: (choice.step_s, choice.micro_batches))
    together = _together(attention, attention_chips + feed_forward_chips, batch, context)
    return AfdReport(
        attention.name,
        attention.system.name,
        feed_forward.name,
        attention_chips,
        feed_forward_chips,
        attention.precision.named,
        batch,
        context,
        sides[0],
        sides[1],
        batch * attention.precision.small.size_bytes(attention.model.hidden),
        best.micro_batches,
        best.step_s,
        1 / best.step_s,
        batch / best.step_s / (attention_chips + feed_forward_chips),
        together,
        None if together is None else together / best.step_s,
        choices,
        uncertain_of_several((attention.system, feed_forward)),
    )


def _held(
    attention: Deployment, feed_forward: System, attention_chips: int, feed_forward_chips: int, batch: int, context: int
) -> tuple[float, float]:
    """Bytes a chip of each side. Raises ShapeError saying how many chips would do."""
    parts = weight_bytes_by_part(attention.model, attention.precision, Parallelism())
    moved = sum(size for part, size in parts.items() if part in FEED_FORWARD)
    copied = sum(parts.values()) - moved
    sequences = -(-batch // attention_chips)
    cache = kv_bytes(attention.model, context, attention.precision)
    mine, room = copied + sequences * cache, attention.system.chip.hbm_bytes * USABLE
    if mine > room:
        fits = int((room - copied) // cache) if room > copied else 0
        needed = -(-batch // fits) if fits else MAX_CHIPS + 1
        more = f"{needed} chips would do" if needed <= MAX_CHIPS else "no number of these chips does"
        raise ShapeError(
            f"attention needs {mine / 1e9:.4g} GB on each {attention.system.chip.name} and {room / 1e9:.4g} GB are "
            f"usable: {more}"
        )
    theirs, space = moved / feed_forward_chips, feed_forward.chip.hbm_bytes * USABLE
    if theirs > space:
        raise ShapeError(
            f"feed-forward needs {theirs / 1e9:.4g} GB on each {feed_forward.chip.name} and {space / 1e9:.4g} GB are "
            f"usable: {int(-(-moved // space))} chips would do"
        )
    return mine, theirs


def _choice(
    attention: Deployment, feed_forward: System, a: int, f: int, batch: int, context: int, micro: int
) -> MicroBatches:
    part = -(-batch // micro)
    local = Deployment(attention.name, attention.model, attention.system, attention.precision, Parallelism())
    sequences = -(-part // a)
    mine, theirs = (local.work(local.decode_shape(rows, context)) for rows in (sequences, part))
    attention_s = float(side_time(mine, attention.system, False, 1).busy_s)
    feed_s = float(side_time(theirs, feed_forward, True, f).busy_s)
    crossing = part * attention.precision.small.size_bytes(attention.model.hidden)
    crossed_s = hops_s(hop_link(attention.system, a, feed_forward, f), crossings(attention.model), crossing)
    ways = {"attention": micro * attention_s, "feed-forward": micro * feed_s, "hops": attention_s + feed_s + crossed_s}
    bound = max(ways, key=lambda way: ways[way])
    return MicroBatches(micro, attention_s, feed_s, crossed_s, ways[bound], bound, batch / ways[bound])


def _together(attention: Deployment, chips: int, batch: int, context: int) -> float | None:
    """The shortest of all cuts by tensor, sequences and experts that fit and have the links that they need."""
    times = [_whole_s(replace(attention, cut=cut), batch, context) for cut in _cuts(attention.model, chips)]
    return min((time_s for time_s in times if time_s is not None), default=None)


def _cuts(model: ModelShape, chips: int) -> Iterator[Parallelism]:
    heads = math.gcd(*(layer.attention.num_heads for layer, _ in model.layer_counts))
    for tensor in (t for t in range(1, min(chips, heads) + 1) if chips % t == 0 and heads % t == 0):
        for expert in {1, chips}:
            cut = Parallelism(tensor=tensor, expert=expert, data=chips // tensor)
            with suppress(ShapeError):  # Experts that cannot be dealt out so.
                cut.check(model)
                yield cut


def _whole_s(where: Deployment, batch: int, context: int) -> float | None:
    """Operations one after the other, each at its floor, and collectives with the latency of their links."""
    if not where.memory(context, batch).fits:
        return None
    shape = where.decode_shape(batch, context)
    try:
        cost = calibrated_cost(where.work(shape), shape, where.system, Coefficients(), where.cut)
    except CatalogError:
        return None
    return float(cost.step_s)
