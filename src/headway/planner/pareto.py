"""The frontier of interactivity (tokens/s a user) and throughput (tokens/s a chip) over cuts, batches and formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape
from headway.catalog import System
from headway.planner.basis import assumptions, formulas
from headway.planner.left_out import LeftOut, left_out
from headway.planner.lengths import Lengths, asked_tokens, rate_that_counts
from headway.planner.sweep import MAX_CHIPS, Configuration, Sweep, common_fits, deployments, sweeps
from headway.planner.uncertain import RENT, uncertain_of_several
from headway.roofline import Calibration

STAIRCASE = "a point is on the frontier if no other is at least as good in both and better in one"


@dataclass(frozen=True, slots=True)
class ParetoReport:
    model: str
    context_tokens: int
    """Of each sequence; with prompts that of one half way through its output."""
    prompt_tokens: int | None
    """None: decode only."""
    cached_tokens: int | None
    output_tokens: int | None
    cost_model: str
    considered: int
    frontier: tuple[Configuration, ...]
    """From the most interactive to the most productive."""
    slo_tokens_per_s: float | None
    """None: not asked for, or nobody sees it."""
    slo_ttft_s: float | None
    """What misses it is left out."""
    best_at_slo: Configuration | None
    """Highest throughput a chip of all that reach the SLO; None: none does."""
    left_out: tuple[LeftOut, ...]
    """Why there is no frontier, or nothing reaches the SLO; empty: there is, and something does."""
    formulas: tuple[str, ...]
    assumptions: tuple[str, ...]
    uncertain: tuple[str, ...]
    """Of all systems compared: also those that are not in the answer had to be beaten."""


def pareto_report(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    load: Lengths | int,
    fitted: Mapping[str, Calibration] | None = None,
    slo_tokens_per_s: float | None = None,
    max_chips: int = MAX_CHIPS,
    slo_ttft_s: float | None = None,
) -> ParetoReport:
    """`load`: what requests are like; a number: decode only, every sequence that long. `fitted`: calibrations by chip;
    without one for every system's chip, all are compared by their floors.
    """
    slo_tokens_per_s = rate_that_counts(slo_tokens_per_s, load)
    fits = common_fits(systems, fitted or {})
    tried = sweeps(name, model, systems, precisions, load, fits, max_chips, slo_ttft_s)
    reached = [s.configuration(j) for s in tried if (j := s.best_at(slo_tokens_per_s or 0.0, slo_ttft_s)) is not None]
    best = max(reached, key=lambda c: c.throughput_tokens_per_s_per_chip, default=None)
    dropped: tuple[LeftOut, ...] = ()
    if best is None:
        every = chain.from_iterable(deployments(name, model, systems, precisions, load, fits, max_chips))
        dropped = left_out(tried, every, asked_tokens(load)[0], slo_tokens_per_s, slo_ttft_s)
    return ParetoReport(
        name,
        *asked_tokens(load),
        "calibrated" if fits else "floor",
        sum(len(s.batches) for s in tried),
        tuple(tried[i].configuration(j) for i, j in _frontier(tried, slo_ttft_s)),
        slo_tokens_per_s,
        slo_ttft_s,
        best if slo_tokens_per_s is not None else None,
        dropped,
        formulas(load, bool(fits)),
        (*assumptions(load, fits), STAIRCASE),
        uncertain_of_several(systems, *RENT),
    )


def _frontier(tried: Sequence[Sweep], slo_ttft_s: float | None) -> list[tuple[int, int]]:
    """(sweep, batch) of every non-dominated point, fastest first."""
    if not tried:
        return []
    allowed = np.concatenate([s.allowed(0.0, slo_ttft_s) for s in tried])
    speed = np.concatenate([s.interactivity for s in tried])[allowed]
    yields = np.concatenate([s.throughput for s in tried])[allowed]
    owner = np.concatenate([np.full(len(s.batches), i) for i, s in enumerate(tried)])[allowed]
    place = np.concatenate([np.arange(len(s.batches)) for s in tried])[allowed]
    order = np.lexsort((-yields, -speed))
    best = np.maximum.accumulate(yields[order])
    keep = np.concatenate([[True], yields[order][1:] > best[:-1]])[: len(order)]
    return [(int(owner[i]), int(place[i])) for i in order[keep]]
