"""Fitting the calibrated model's coefficients to measured steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.work import StepWork
from headway.catalog import System
from headway.roofline.calibrated import Coefficients, calibrated_cost

_AT_MOST = {"compute_efficiency": 1.0, "bandwidth_efficiency": 1.0, "link_efficiency": 1.0}
FITTED = (
    "compute_efficiency",
    "half_rows",
    "bandwidth_efficiency",
    "link_efficiency",
    "round_s",
    "layer_s",
    "expert_layer_s",
    "host_s",
    "host_sequence_s",
)
START = Coefficients(
    compute_efficiency=0.6,
    half_rows=32,
    bandwidth_efficiency=0.7,
    link_efficiency=0.6,
    round_s=2e-6,
    layer_s=2e-5,
    expert_layer_s=2e-5,
    host_s=1e-3,
    host_sequence_s=5e-6,
)


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """Steps of one model, system and cut: `step_s` [N] belongs to the N steps of `work` and `shape`."""

    work: StepWork
    shape: StepShape
    system: System
    cut: Parallelism
    step_s: FloatArray


def log_ratios(measured: Sequence[MeasuredSteps], c: Coefficients) -> FloatArray:
    """ln(predicted / measured) of every step: symmetric in too slow and too fast."""
    predicted = [np.log(calibrated_cost(m.work, m.shape, m.system, c, m.cut).step_s / m.step_s) for m in measured]
    return np.concatenate([np.atleast_1d(part) for part in predicted])


def median_error(measured: Sequence[MeasuredSteps], c: Coefficients) -> float:
    """Median of |predicted - measured| / measured."""
    return float(np.median(np.abs(np.expm1(log_ratios(measured, c)))))


def mean_error(measured: Sequence[MeasuredSteps], c: Coefficients) -> float:
    return float(np.mean(np.abs(np.expm1(log_ratios(measured, c)))))


def fit(measured: Sequence[MeasuredSteps], start: Coefficients = START, names: Sequence[str] = FITTED) -> Coefficients:
    """Least mean |log ratio|, by trying each coefficient a factor up and down while that helps, then smaller factors.

    Deterministic. A coefficient that the data cannot tell keeps about its start. Raises ValueError without data.
    """
    if not measured:
        raise ValueError("a fit needs measured steps")
    best, best_loss = start, _loss(measured, start)
    factor = 2.0
    while factor > 1.005:
        improved = False
        for name in names:
            for candidate in _neighbours(best, name, factor):
                loss = _loss(measured, candidate)
                if loss < best_loss - 1e-9:
                    best, best_loss, improved = candidate, loss, True
        if not improved:
            factor = factor**0.5
    return best


def _loss(measured: Sequence[MeasuredSteps], c: Coefficients) -> float:
    return float(np.abs(log_ratios(measured, c)).mean())


def _neighbours(c: Coefficients, name: str, factor: float) -> tuple[Coefficients, Coefficients]:
    value, most = getattr(c, name), _AT_MOST.get(name, np.inf)
    up, down = float(min(value * factor, most)), value / factor
    return replace(c, **{name: up}), replace(c, **{name: down})
