"""Step times as a real run had them: a small model, fitted to the step log of that run.

    decodes alone    device = a + b n + p pairs
    with a prompt    device = a' + c min(t, CORNER) + c' max(t - CORNER, 0) + p' pairs
    host             e + f n, from the plan to the next one, less the device's time

of n sequences and t tokens. A decode's kernels are others than a prompt's; few tokens wait for the weights, many for
the arithmetic: hence the corner. Least squares of the relative errors, without negative coefficients. What the log
tells little of is drawn to what it may tell more of: a' to a, c to b, c' to c.

Then decodes of so many sequences are as much slower or faster as the log's were, in the median: kernels have good and
bad sizes. At last all is scaled so that the log's totals come out, of decodes alone and of steps with a prompt. (Now
and then a machine is disturbed; medians and relative errors leave that time out.)
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
CORNER = 32
"""Tokens."""
PULL = 0.5
"""Where what is drawn together differs by a median step, that counts as much as a step that is off by so much."""
AS_EXPECTED = 2
"""Steps as long as the line says that each number of sequences is taken to have had beside those of the log."""


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A step's shape and what it cost."""

    tokens: int
    sequences: int
    pairs: int
    device_ns: int
    host_ns: int


class Line(NamedTuple):
    """Nanoseconds on the device; of decodes before the correction for their number."""

    decode: float
    decode_sequence: float
    decode_pair: float
    prompt: float
    token: float
    """Up to CORNER."""
    further_token: float
    prompt_pair: float


DECODE_TERMS, PROMPT_TERMS = 3, 4


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
        self.line, self.corrections, predicted_ns = _device(tokens, sequences, pairs, took_ns)
        self.host = _host(sequences, np.maximum(host_ns, 1.0))
        self.median_error = float(np.median(np.abs(predicted_ns / took_ns - 1)))

    def one(self, step: Counts) -> Step:
        tokens, sequences, _, pairs, _, _ = step
        return Step(max(1, round(self._device_ns(tokens, sequences, pairs[0]))), self._host_ns(sequences), 0)

    def several(self, steps: int, step: Counts) -> Steps:
        tokens, sequences, _, pairs, _, _ = step
        device_ns = np.maximum(1, np.rint(self._device_ns(tokens, sequences, pairs[0]))).astype(np.int64)
        return Steps(np.broadcast_to(device_ns, steps), self._host_ns(sequences), 0)

    def _device_ns(self, tokens: int, sequences: int, pairs: Any) -> Any:
        line = self.line
        if tokens > sequences:
            tokens_ns = line.token * min(tokens, CORNER) + line.further_token * max(0, tokens - CORNER)
            return pairs * line.prompt_pair + (line.prompt + tokens_ns)
        decode_ns = pairs * line.decode_pair + (line.decode + line.decode_sequence * sequences)
        return decode_ns * self.corrections.get(sequences, 1.0)

    def _host_ns(self, sequences: int) -> int:
        base, sequence = self.host
        return round(base + sequence * sequences)


def _device(tokens: Floats, sequences: Floats, pairs: Floats, took_ns: Floats) -> tuple[Line, dict[int, float], Floats]:
    """The line, corrections by number of decodes, and what they say of each step [steps]."""
    prompt = tokens > sequences
    columns = _columns(tokens, sequences, pairs, prompt)
    line = _relative_fit(columns, took_ns, _pulls(float(np.median(took_ns))))
    predicted_ns = columns @ line
    decodes = sequences[~prompt]
    corrections = _corrections(decodes, took_ns[~prompt] / predicted_ns[~prompt])
    predicted_ns[~prompt] *= [corrections[n] for n in decodes.tolist()]
    scales = [_scale(took_ns[part], predicted_ns[part]) for part in (~prompt, prompt)]
    line *= np.repeat(scales, (DECODE_TERMS, PROMPT_TERMS))
    return Line(*line.tolist()), corrections, predicted_ns * np.where(prompt, *reversed(scales))


def _columns(tokens: Floats, sequences: Floats, pairs: Floats, prompt: npt.NDArray[np.bool_]) -> Floats:
    """[steps, fields of Line]"""
    ones, up_to_corner = np.ones(len(tokens)), np.minimum(tokens, CORNER)
    decodes = np.stack([ones, sequences, pairs], 1) * ~prompt[:, None]
    prompts = np.stack([ones, up_to_corner, tokens - up_to_corner, pairs], 1) * prompt[:, None]
    return np.hstack([decodes, prompts])


def _pulls(step_ns: float) -> Floats:
    """Equations [pulls, fields of Line] whose right side is zero."""
    alike = (
        Line(-1, 0, 0, 1, 0, 0, 0),
        Line(0, -1, 0, 0, 1, 0, 0),
        Line(0, 0, 0, 0, -CORNER, CORNER, 0),
    )
    return np.array(alike, np.float64) * (PULL / step_ns)


def _relative_fit(columns: Floats, took_ns: Floats, pulls: Floats) -> Floats:
    """QR first, as the exact search for coefficients that are not negative asks for many fits."""
    equations = np.vstack([columns / took_ns[:, None], pulls])
    wanted = np.append(np.ones(len(took_ns)), np.zeros(len(pulls)))
    triangle = np.linalg.qr(np.column_stack([equations, wanted])).R
    return non_negative(triangle[:, :-1], triangle[:, -1])


def _corrections(sequences: Floats, ratios: Floats) -> dict[int, float]:
    """`ratios`: how much longer each step of so many sequences took than the line says."""
    found: dict[int, float] = {}
    for n in np.unique(sequences).tolist():
        mine = ratios[sequences == n]
        found[int(n)] = (float(np.median(mine)) * len(mine) + AS_EXPECTED) / (len(mine) + AS_EXPECTED)
    return found


def _host(sequences: Floats, took_ns: Floats) -> tuple[float, float]:
    columns = np.stack([np.ones(len(took_ns)), sequences], 1)
    found = non_negative(columns / took_ns[:, None], np.ones(len(took_ns)))
    base, sequence = (found * _scale(took_ns, columns @ found)).tolist()
    return base, sequence


def _scale(took_ns: Floats, predicted: Floats) -> float:
    return float(took_ns.sum() / predicted.sum()) if len(took_ns) else 1.0
