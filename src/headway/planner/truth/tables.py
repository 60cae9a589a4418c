"""Errors by model, chip and engine, coverage of the intervals, and what a wrong prediction costs who decides by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.planner.truth.evidence import Evidence, Flags
from headway.planner.truth.held_out import Predictions
from headway.planner.truth.measurement import Measurement, Metric

BY: dict[str, Callable[[Measurement], str]] = {
    "model": lambda m: m.model,
    "chip": lambda m: m.system,
    "engine": lambda m: m.engine,
}
METRICS: tuple[Metric, ...] = ("tpot", "ttft")
SLO_QUANTILES = (0.25, 0.5, 0.75)
MISSED = 0.1
"""A pick that is measured this much slower than the SLO counts as no answer at all."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    name: str
    points: int
    median_error: float
    mean_error: float
    median_bias: float
    coverage: float | None
    """Share of the measurements within their intervals; None: no interval is known."""
    interval_ratio: float | None
    """Median of the intervals' half widths, as a factor."""


@dataclass(frozen=True, slots=True)
class ErrorTable:
    metric: Metric
    by: str
    rows: tuple[ErrorRow, ...]
    macro_median_error: float
    """Mean of the rows' medians."""
    macro_mean_error: float
    coverage: float | None


def error_tables(e: Evidence, p: Predictions) -> tuple[ErrorTable, ...]:
    """For each metric by model, chip and engine; metrics and groups that were not asked are left out."""
    found = (_table(e, p, metric, by) for metric in METRICS for by in BY)
    return tuple(table for table in found if table.rows)


def _table(e: Evidence, p: Predictions, metric: Metric, by: str) -> ErrorTable:
    labels, metrics = e.where(BY[by]), e.where(lambda m: m.metric)
    asked = np.isfinite(p.predicted_s) & (metrics == metric)
    rows = tuple(error_row(str(name), e.measured_s, p, asked & (labels == name)) for name in sorted(set(labels[asked])))
    if not rows:
        return ErrorTable(metric, by, (), 0.0, 0.0, None)
    return ErrorTable(
        metric,
        by,
        rows,
        float(np.mean([row.median_error for row in rows])),
        float(np.mean([row.mean_error for row in rows])),
        error_row("", e.measured_s, p, asked).coverage,
    )


def error_row(name: str, measured_s: FloatArray, p: Predictions, asked: Flags) -> ErrorRow:
    off = p.predicted_s[asked] / measured_s[asked] - 1
    known = np.isfinite(p.ratio[asked])
    ratio = p.ratio[asked][known]
    within = np.abs(np.log1p(off[known])) <= np.log(ratio)
    return ErrorRow(
        name,
        int(asked.sum()),
        float(np.median(np.abs(off))),
        float(np.mean(np.abs(off))),
        float(np.median(off)),
        float(within.mean()) if known.any() else None,
        float(np.median(ratio)) if known.any() else None,
    )


@dataclass(frozen=True, slots=True)
class Regret:
    """Of picking, among the measured configurations of a model, chip and workload, the one that is predicted to make
    the most tokens a chip at an SLO: how much fewer it is measured to make than the best that meets it.
    """

    groups: int
    median: float
    mean: float
    within_tenth: float
    """Share of groups whose pick is within 10% of the measured best."""
    missed: float
    """Share of groups whose pick is measured to miss the SLO by more than 10%; their regret is taken as 100%."""
    random_median: float
    """Of a configuration drawn among those measured, for comparison: the median of the expected regrets."""


def regret(e: Evidence, p: Predictions) -> Regret | None:
    """None without two configurations of anything. Prompts computed elsewhere are left out: sources do not say on how
    many chips.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, m in enumerate(e.found):
        if m.metric == "tpot" and not m.apart and not m.batch and np.isfinite(p.predicted_s[i]):
            groups[(m.model, m.system, m.engine, m.weights, m.prompt_tokens, m.output_tokens)].append(i)
    regrets, chances, misses = [], [], 0
    for rows in groups.values():
        chips = np.array([e.found[i].decode.tensor * e.found[i].decode.data for i in rows], np.float64)
        users = np.array([e.found[i].concurrency for i in rows], np.float64)
        if len(set(e.measured_s[rows])) < 2 or len({(c, u) for c, u in zip(chips, users, strict=True)}) < 2:
            continue
        real, guess = 1 / e.measured_s[rows], 1 / p.predicted_s[rows]
        for share in SLO_QUANTILES:
            slo = _between(real, share)
            each, missed = _regrets(real, real * users / chips, slo)
            promised = np.where(guess >= slo, guess * users / chips, guess / slo * 1e-9)
            pick = int(np.argmax(promised))
            regrets.append(each[pick])
            chances.append(float(each.mean()))
            misses += bool(missed[pick])
    if not regrets:
        return None
    gone = np.array(regrets)
    return Regret(
        len(gone),
        float(np.median(gone)),
        float(gone.mean()),
        float((gone <= MISSED).mean()),
        misses / len(gone),
        float(np.median(chances)),
    )


def _between(speeds: FloatArray, share: float) -> float:
    """At this quantile of the measured speeds, half way between two of them: an SLO that none meets by a hair."""
    ordered = np.unique(speeds)
    place = min(max(int(share * (len(ordered) - 1)), 0), len(ordered) - 2)
    return float(np.sqrt(ordered[place] * ordered[place + 1]))


def _regrets(speed: FloatArray, made: FloatArray, slo: float) -> tuple[FloatArray, Flags]:
    best = made[speed >= slo].max()
    missed = speed < slo * (1 - MISSED)
    return np.where(missed, 1.0, np.maximum(0.0, 1 - made / best)), missed
