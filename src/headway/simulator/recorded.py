"""Step times as a real run had them: a curve, fitted to the step log of that run.

    device = factor (fixed^p + moving^p)^(1/p)
             fixed  = a + c sequences
             moving = b tokens + d attended pairs
    host   = e + f sequences            from the plan to the next one, less the device's time

With p = 1 what a step takes anyway and what its tokens take add up; the larger p, the more of one is hidden by the
other. The factor is that of decode steps with so many rows, where the log has many of them: kernels have their moods.
Prices are not negative: least squares of the relative errors, each shape counting alike, then scaled so that the log's
total comes out. (Now and then a machine is disturbed; relative errors alone would leave that time out.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headway.arithmetic.spans import Span
from headway.roofline.step_fit import non_negative
from headway.scheduler.contract import StepPlan
from headway.simulator.step_time import Counts, Step, Steps

Floats = npt.NDArray[np.float64]
MIN_STEPS = 8
"""Fewer tell nothing."""
MOST_STEPS = 4000
"""Of a longer log so many are fitted to, evenly taken."""
ENOUGH = 20
"""Decode steps of so many rows that half of what they differ by is believed."""
_EXPONENTS = (1.0, 1.125, 1.25, 1.375, 1.5, 1.75, 2.0)
_ROUNDS = 12
_FIXED, _MOVING = [0, 2], [1, 3]


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A step's shape and what it cost."""

    tokens: int
    sequences: int
    pairs: int
    device_ns: int
    host_ns: int


def pairs_of(plan: StepPlan) -> int:
    """(query, entry) pairs of full attention."""
    span = Span()
    return int(span.pairs(plan.starts, plan.counts).sum())


class Curve(NamedTuple):
    """Nanoseconds of a step, of a token, of a sequence, of a pair."""

    prices: list[float]
    exponent: float

    def fixed_ns(self, sequences: Any) -> Any:
        return self.prices[0] + self.prices[2] * sequences

    def moving_ns(self, tokens: Any, pairs: Any) -> Any:
        return self.prices[1] * tokens + self.prices[3] * pairs

    def took_ns(self, tokens: Any, sequences: Any, pairs: Any) -> Any:
        p = self.exponent
        return (self.fixed_ns(sequences) ** p + self.moving_ns(tokens, pairs) ** p) ** (1 / p)


class RecordedTimer:
    """Knows full attention only: what a window saves is in the fit as far as the log shows it."""

    spans: tuple[Span, ...] = (Span(),)

    def __init__(self, steps: Sequence[LoggedStep]) -> None:
        """Raises ValueError for fewer than MIN_STEPS steps."""
        if len(steps) < MIN_STEPS:
            raise ValueError(f"{len(steps)} steps are too few to fit step times to; at least {MIN_STEPS} are needed")
        columns = [(1, s.tokens, s.sequences, s.pairs, s.device_ns, s.host_ns) for s in steps]
        *shape, device_ns, host_ns = np.array(columns, np.float64).T
        shapes, took_ns = np.stack(shape, 1), np.maximum(device_ns, 1.0)
        some = np.arange(0, len(steps), -(-len(steps) // MOST_STEPS))
        curve = _curve(shapes[some], took_ns[some])
        self._rows, self._factors = _factors(shapes, took_ns / curve.took_ns(*shape[1:]))
        self._curve = curve
        fitted_ns = np.array([self._device_ns(*row) for row in shapes[:, 1:].tolist()])
        scale = took_ns.sum() / fitted_ns.sum()
        self._curve = Curve([price * scale for price in curve.prices], curve.exponent)
        self.host = _line(shapes[:, _FIXED], np.maximum(host_ns, 1.0))
        self.median_error = float(np.median(np.abs(fitted_ns * scale / took_ns - 1)))

    def one(self, step: Counts) -> Step:
        tokens, sequences, _, pairs, _, _ = step
        return Step(self._whole_ns(tokens, sequences, pairs[0]), self._host_ns(sequences), 0)

    def several(self, steps: int, step: Counts) -> Steps:
        tokens, sequences, _, pairs, _, _ = step
        each = np.broadcast_to(pairs[0], steps).tolist()
        device_ns = np.array([self._whole_ns(tokens, sequences, n) for n in each], np.int64)
        return Steps(device_ns, self._host_ns(sequences), 0)

    def _whole_ns(self, tokens: int, sequences: int, pairs: int) -> int:
        """One by one, as powers of an array may differ in the last bit."""
        return max(1, round(self._device_ns(tokens, sequences, pairs)))

    def _device_ns(self, tokens: float, sequences: float, pairs: float) -> float:
        factor = float(np.interp(sequences, self._rows, self._factors)) if tokens == sequences else 1.0
        return factor * float(self._curve.took_ns(tokens, sequences, pairs))

    def _host_ns(self, sequences: int) -> int:
        base, sequence = self.host
        return round(base + sequence * sequences)


def _curve(shapes: Floats, took_ns: Floats) -> Curve:
    """Of the exponents the one with the least error. Time is the prices times their slopes (it is homogeneous), so
    prices are found by least squares with the slopes of the round before.
    """
    _, kind, many = np.unique(shapes[:, 1:3], axis=0, return_inverse=True, return_counts=True)
    weight: Floats = many[kind].astype(np.float64) ** -0.5
    relative = (weight / took_ns)[:, None]
    prices, least, best = non_negative(relative * shapes, weight), np.inf, Curve([], 1.0)
    for exponent in _EXPONENTS:
        for _ in range(_ROUNDS):
            slopes = _slopes(Curve(prices.tolist(), exponent), shapes)
            prices = (prices + non_negative(relative * shapes * slopes, weight)) / 2
        curve = Curve(prices.tolist(), exponent)
        error = float(np.square(weight * (curve.took_ns(*shapes.T[1:]) / took_ns - 1)).sum())
        if error < least:
            least, best = error, curve
    return best


def _slopes(curve: Curve, shapes: Floats) -> Floats:
    """[steps, prices] by which a step's time grows with what its shape has of each price."""
    _, tokens, sequences, pairs = shapes.T
    took_ns = np.maximum(curve.took_ns(tokens, sequences, pairs), 1e-9)
    fixed_ns = curve.fixed_ns(sequences)
    moving_ns = curve.moving_ns(tokens, pairs)
    slopes = np.empty_like(shapes)
    slopes[:, _FIXED] = ((fixed_ns / took_ns) ** (curve.exponent - 1))[:, None]
    slopes[:, _MOVING] = ((moving_ns / took_ns) ** (curve.exponent - 1))[:, None]
    return slopes


def _factors(shapes: Floats, ratio: Floats) -> tuple[Floats, Floats]:
    """By the rows of a decode step: how much longer it took than the curve has it; towards 1 where few tell."""
    decodes = shapes[:, 1] == shapes[:, 2]
    rows, many = np.unique(shapes[decodes, 2], return_counts=True)
    if not len(rows):
        return np.ones(1), np.ones(1)
    medians = np.array([np.median(ratio[decodes & (shapes[:, 2] == n)]) for n in rows])
    return rows, medians ** (many / (many + ENOUGH))


def _line(columns: Floats, took_ns: Floats) -> list[float]:
    """A coefficient for each of the columns [steps, columns]."""
    found = non_negative(columns / took_ns[:, None], np.ones(len(took_ns)))
    line: list[float] = (found * (took_ns.sum() / (columns @ found).sum())).tolist()
    return line
