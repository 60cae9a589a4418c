"""Why a search leaves nothing: how many ways to serve each condition drops, and the nearest miss of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.planner.deployment import Deployment
from headway.planner.sweep import Sweep, together_at_least


@dataclass(frozen=True, slots=True)
class LeftOut:
    """By one condition."""

    condition: str
    dropped: int
    considered: int
    nearest: str
    """Which of them misses it by the least, and what it has."""

    def __str__(self) -> str:
        return f"{self.dropped:,} of {self.considered:,} {self.condition}; the nearest: {self.nearest}"


def left_out(
    tried: Sequence[Sweep],
    deployments: Iterable[Deployment],
    context: int,
    slo_tokens_per_s: float | None,
    slo_ttft_s: float | None,
) -> tuple[LeftOut, ...]:
    """`deployments`: every cut, those in which no sequences of `context` tokens fit too."""
    found = [_without_room(list(deployments), context), *_missed(tried, slo_tokens_per_s, slo_ttft_s)]
    return tuple(each for each in found if each is not None)


def _without_room(cuts: Sequence[Deployment], context: int) -> LeftOut | None:
    plans = [(where.memory(context, together_at_least(where)), where) for where in cuts]
    fuller = [((p.weights_bytes + p.kv_bytes) / p.usable_bytes, p, where) for p, where in plans if not p.fits]
    if not fuller:
        return None
    _, plan, where = min(fuller, key=lambda each: each[0])
    need, have = (plan.weights_bytes + plan.kv_bytes) / 1e9, plan.usable_bytes / 1e9
    return LeftOut(
        "cuts have no room for a sequence",
        len(fuller),
        len(cuts),
        f"{where.cut.chips} x {where.system.chip.name} ({where.system.name}) in {where.precision.named}, which "
        f"needs {need:.4g} GB of {have:.4g} GB a chip",
    )


def _missed(
    tried: Sequence[Sweep], slo_tokens_per_s: float | None, slo_ttft_s: float | None
) -> Iterator[LeftOut | None]:
    """Of batches of cuts that fit. What each alone leaves, both together may not."""
    if not tried:
        return
    slow_by = (slo_tokens_per_s or 0.0) / np.concatenate([sweep.interactivity for sweep in tried])
    late_by = np.concatenate([sweep.load.ttft_s for sweep in tried]) / (slo_ttft_s or np.inf)
    slow = f"configurations give less than {slo_tokens_per_s or 0:g} tokens/s a user"
    late = f"configurations take longer than {slo_ttft_s or 0:g} s to a first token"
    yield _nearest(slow, tried, slow_by)
    yield _nearest(late, tried, late_by)
    if (slow_by <= 1).any() and (late_by <= 1).any():
        yield _nearest("configurations miss one or the other", tried, np.maximum(slow_by, late_by))


def _nearest(condition: str, tried: Sequence[Sweep], by: FloatArray) -> LeftOut | None:
    """`by` [N], batches of all sweeps in turn: above 1 is missed. None: nothing is."""
    missed = by > 1
    if not missed.any():
        return None
    ends = np.cumsum([len(sweep.batches) for sweep in tried])
    place = int(np.where(missed, by, np.inf).argmin())
    owner = int(np.searchsorted(ends, place, side="right"))
    c = tried[owner].configuration(place - int(ends[owner]) + len(tried[owner].batches))
    first = "" if c.ttft_s is None else f", {c.ttft_s:.3g} s to a first token"
    nearest = (
        f"{c.chips} x {c.chip} ({c.system}) in {c.weight_format}, batch {c.batch}, with "
        f"{c.interactivity_tokens_per_s:.4g} tokens/s a user{first}"
    )
    return LeftOut(condition, int(missed.sum()), len(by), nearest)
