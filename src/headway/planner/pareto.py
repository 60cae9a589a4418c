"""The frontier of interactivity (tokens/s a user) and throughput (tokens/s a chip) over cuts, batches and formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape
from headway.catalog import System
from headway.planner.sweep import ASSUMPTIONS, MAX_CHIPS, Configuration, Sweep, common_fits, sweeps
from headway.roofline import Calibration

STAIRCASE = "a point is on the frontier if no other is at least as good in both and better in one"


@dataclass(frozen=True, slots=True)
class ParetoReport:
    model: str
    context_tokens: int
    cost_model: str
    considered: int
    frontier: tuple[Configuration, ...]
    """From the most interactive to the most productive."""
    slo_tokens_per_s: float | None
    best_at_slo: Configuration | None
    """Highest throughput a chip of all that reach the SLO; None: none does."""
    assumptions: tuple[str, ...] = (*ASSUMPTIONS, STAIRCASE)


def pareto_report(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    context: int,
    fitted: Mapping[str, Calibration] | None = None,
    slo_tokens_per_s: float | None = None,
    max_chips: int = MAX_CHIPS,
) -> ParetoReport:
    """`fitted`: calibrations by chip; without one for every system's chip, all are compared by their floors."""
    fits = common_fits(systems, fitted or {})
    tried = sweeps(model, systems, precisions, context, fits, max_chips)
    best = None
    if slo_tokens_per_s is not None:
        reached = [s.configuration(j) for s in tried if (j := s.best_at(slo_tokens_per_s)) is not None]
        best = max(reached, key=lambda c: c.throughput_tokens_per_s_per_chip, default=None)
    return ParetoReport(
        name,
        context,
        "calibrated" if fits else "floor",
        sum(len(s.batches) for s in tried),
        tuple(tried[i].configuration(j) for i, j in _frontier(tried)),
        slo_tokens_per_s,
        best,
    )


def _frontier(tried: Sequence[Sweep]) -> list[tuple[int, int]]:
    """(sweep, batch) of every non-dominated point, fastest first."""
    if not tried:
        return []
    speed = np.concatenate([s.interactivity for s in tried])
    yields = np.concatenate([s.throughput for s in tried])
    owner = np.concatenate([np.full(len(s.batches), i) for i, s in enumerate(tried)])
    place = np.concatenate([np.arange(len(s.batches)) for s in tried])
    order = np.lexsort((-yields, -speed))
    best = np.maximum.accumulate(yields[order])
    keep = np.concatenate([[True], yields[order][1:] > best[:-1]])
    return [(int(owner[i]), int(place[i])) for i in order[keep]]
