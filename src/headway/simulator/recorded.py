"""Step times as a real run had them: a line, fitted to the step log of that run.

    device = a + b tokens + c sequences + d attended pairs
    host   = e + f sequences            from the plan to the next one, less the device's time

Coefficients are not negative: least squares of the relative errors, then scaled so that the log's total comes out. (Now
and then a machine is disturbed; relative errors alone would leave that time out.) A finer model, with lines of their
own for decodes and prompts, fits its own log better and foretells the next run worse: docs/log.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.arithmetic.spans import Span
from headway.roofline.step_fit import non_negative
from headway.scheduler.contract import StepPlan
from headway.simulator.step_time import Counts, Step, Steps

Floats = npt.NDArray[np.float64]
MIN_STEPS = 8
"""Fewer tell nothing."""


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


class RecordedTimer:
    """Knows full attention only: what a window saves is in the fit as far as the log shows it."""

    spans: tuple[Span, ...] = (Span(),)

    def __init__(self, steps: Sequence[LoggedStep]) -> None:
        """Raises ValueError for fewer than MIN_STEPS steps."""
        if len(steps) < MIN_STEPS:
            raise ValueError(f"{len(steps)} steps are too few to fit step times to; at least {MIN_STEPS} are needed")
        tokens, sequences, pairs, device_ns, host_ns = np.array(
            [(s.tokens, s.sequences, s.pairs, s.device_ns, s.host_ns) for s in steps], np.float64
        ).T
        took_ns = np.maximum(device_ns, 1.0)
        shapes = np.stack([np.ones(len(steps)), tokens, sequences, pairs], 1)
        self.device = _line(shapes, took_ns)
        self.host = _line(shapes[:, [0, 2]], np.maximum(host_ns, 1.0))
        self.median_error = float(np.median(np.abs(shapes @ self.device / took_ns - 1)))

    def one(self, step: Counts) -> Step:
        tokens, sequences, _, pairs, _, _ = step
        return Step(max(1, round(self._device_ns(tokens, sequences, pairs[0]))), self._host_ns(sequences), 0)

    def several(self, steps: int, step: Counts) -> Steps:
        tokens, sequences, _, pairs, _, _ = step
        device_ns = np.maximum(1, np.rint(self._device_ns(tokens, sequences, pairs[0]))).astype(np.int64)
        return Steps(np.broadcast_to(device_ns, steps), self._host_ns(sequences), 0)

    def _device_ns(self, tokens: int, sequences: int, pairs: Any) -> Any:
        base, token, sequence, pair = self.device
        return pairs * pair + (base + token * tokens + sequence * sequences)

    def _host_ns(self, sequences: int) -> int:
        base, sequence = self.host
        return round(base + sequence * sequences)


def _line(columns: Floats, took_ns: Floats) -> list[float]:
    """A coefficient for each of the columns [steps, columns]."""
    found = non_negative(columns / took_ns[:, None], np.ones(len(took_ns)))
    line: list[float] = (found * (took_ns.sum() / (columns @ found).sum())).tolist()
    return line
