"""How long a step takes: the cost model of a model on a system, tabulated so that a step costs microseconds.

Operations that depend on the number of new tokens alone become one table; the few others (attention, logits, state)
keep a coefficient for each thing that they depend on. All of it is asked of the cost model itself, never written anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headway.arithmetic.attends import spans
from headway.arithmetic.spans import Ints, Span
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.work import StepWork, step_work
from headway.roofline import StepCost, calibrated_cost, floor_cost
from headway.simulator.step_probes import Probes, VaryingOp, empty_shape

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.parallelism import Parallelism
    from headway.arithmetic.shape import ModelShape
    from headway.catalog import System
    from headway.roofline import Coefficients

Sums = Sequence[Any]
"""By span: an integer each for one step, an array [k] for k steps."""
Counts = tuple[int, int, int, Sums, Sums, Sums]
"""Tokens, sequences, sampled rows; pairs, reads and writes by span."""
Choice = Callable[[Any, Any], Any]
"""Of two numbers, or of each pair in two arrays [k]."""


class Step(NamedTuple):
    """On the device, beside it, and the index (into BOUNDS) of what bound it."""

    device_ns: int
    host_ns: int
    bound: int


class Steps(NamedTuple):
    """Of k steps in a row; [k] the device's time, the host's is the same for all."""

    device_ns: Ints
    host_ns: int
    bounds: Ints | int
    """One index where it is the same for all."""


class TabulatedTime(ABC):
    """A `Timer` that asks the cost model once, for steps of at most `max_step_tokens` tokens. With pipeline stages, of
    one pass through all of them. `coefficients` None: the floor, which has no host time of its own.

    Raises what `step_work` raises.
    """

    def __init__(
        self,
        model: ModelShape,
        precision: Precision,
        cut: Parallelism,
        system: System,
        max_step_tokens: int,
        coefficients: Coefficients | None = None,
        host_gap_s: float = 0.0,
    ) -> None:
        self.spans = spans(model)
        self._model, self._precision, self._cut, self._system = model, precision, cut, system
        self._overlaps = coefficients is None
        self._host_gap_s = host_gap_s + (coefficients.host_s if coefficients else 0.0)
        self._host_sequence_s = coefficients.host_sequence_s if coefficients else 0.0
        self._device = replace(coefficients, host_s=0.0, host_sequence_s=0.0) if coefficients else None
        self._exposed = 1 - coefficients.overlap if coefficients else 0.0
        self._beside = coefficients.host_beside if coefficients else 0.0
        self._launch_s = 0.0
        self._tabulate(np.arange(max_step_tokens + 1))

    @abstractmethod
    def _tabulate(self, tokens: Ints) -> None: ...

    def _work(self, shape: StepShape, cut: Parallelism | None = None) -> StepWork:
        cut = cut or self._cut
        return step_work(self._model, shape, self._precision, cut, domain=self._system.scaleup_chips)

    def _price(self, work: StepWork, shape: StepShape, cut: Parallelism | None = None) -> StepCost:
        cut = cut or self._cut
        if self._device is None:
            return floor_cost(work, self._system, cut.chips)
        return calibrated_cost(work, shape, self._system, self._device, cut)

    def one(self, step: Counts) -> Step:
        device_s, gap_s, bounds = self.parts(step, max, min)
        return Step(max(1, round(device_s * 1e9)), round(gap_s * 1e9), bounds.index(max(bounds)))

    def several(self, steps: int, step: Counts) -> Steps:
        device_s, gap_s, parts = self.parts(step, np.maximum, np.minimum)
        device_ns = (
            np.rint(device_s * 1e9) if isinstance(device_s, np.ndarray) else np.full(steps, np.rint(device_s * 1e9))
        )
        return Steps(np.maximum(device_ns, 1).astype(np.int64), round(gap_s * 1e9), self._bounds(parts, steps))

    @abstractmethod
    def parts(self, step: Counts, larger: Choice, smaller: Choice) -> tuple[Any, float, tuple[Any, ...]]:
        """Device time, host time, and how long each of BOUNDS is busy; seconds, with NumPy's `larger` and `smaller` of
        several steps.
        """

    def _bounds(self, parts: tuple[Any, ...], steps: int) -> Ints | int:
        bounds: Ints = np.argmax([np.broadcast_to(part, steps) for part in parts], axis=0)
        return bounds

    def _together(
        self, compute_s: Any, memory_s: Any, network_s: Any, busy_s: Any, sequences: int, larger: Choice
    ) -> tuple[Any, float, tuple[Any, ...]]:
        """As `floor_cost` and `calibrated_cost` do it. `busy_s`: of all operations one after another. Where the host
        works beside the device, the device's time is what it adds to the host's.
        """
        gap_s = self._host_gap_s + self._host_sequence_s * sequences
        if self._overlaps:
            device_s = larger(larger(compute_s, memory_s), network_s)
        else:
            device_s = busy_s + (network_s + self._launch_s)
        if self._beside:
            device_s = self._beside * (np.hypot(device_s, gap_s) - gap_s) + (1 - self._beside) * device_s
        return device_s, gap_s, (compute_s, memory_s, network_s, self._launch_s + gap_s)


class StepTime(TabulatedTime):
    """Where every chip sees the whole step: raises ValueError for a cut that deals out sequences or contexts."""

    def _tabulate(self, tokens: Ints) -> None:
        if self._cut.data > 1 or self._cut.context > 1:
            raise ValueError("the busiest chip's share is not the whole step's: DealtTime knows it")
        every = empty_shape(self.spans, tokens)
        work = self._work(every)
        probes = Probes(self._work, self.spans)
        fixed = tuple(op for i, op in enumerate(work.ops) if i not in probes.varying)
        cost = self._price(replace(work, ops=fixed), every)
        parts = (cost.compute_s, cost.memory_s, cost.network_s, cost.host_s, cost.step_s)
        compute_s, memory_s, network_s, launch_s, step_s = (np.broadcast_to(x, every.tokens.shape) for x in parts)
        self._compute_s, self._memory_s, self._network_s = compute_s.tolist(), memory_s.tolist(), network_s.tolist()
        self._busy_s = (step_s - network_s - launch_s).tolist()
        self._launch_s = float(launch_s[-1])
        alone = replace(work, transfers=())
        self._varying: list[VaryingOp] = [
            probes.op(i, lambda op: self._price(replace(alone, ops=(op,)), every), len(step_s))
            for i in sorted(probes.varying)
        ]
        self._even = all(span == Span() for span in self.spans) and not any(op.expand_flops for op in self._varying)
        """A decode row adds as much in each step as in the one before."""

    def parts(self, step: Counts, larger: Choice, smaller: Choice) -> tuple[Any, float, tuple[Any, ...]]:
        tokens, sequences, sampled, pairs, reads, writes = step
        compute_s, memory_s = self._compute_s[tokens], self._memory_s[tokens]
        busy_s, network_s = self._busy_s[tokens], self._network_s[tokens]
        for op in self._varying:
            op_compute_s = op.flops(tokens, sampled, pairs, reads, larger, smaller) * op.flop_s[tokens]
            op_memory_s = op.moved_bytes(tokens, sequences, sampled, reads, writes) * op.byte_s
            compute_s, memory_s = compute_s + op_compute_s, memory_s + op_memory_s
            if self._overlaps:
                continue
            busy_s = busy_s + larger(op_compute_s, op_memory_s)
            if self._exposed:
                busy_s = busy_s + self._exposed * smaller(op_compute_s, op_memory_s)
        return self._together(compute_s, memory_s, network_s, busy_s, sequences, larger)

    def _bounds(self, parts: tuple[Any, ...], steps: int) -> Ints | int:
        """Where every part grows evenly, what is longest at both ends is longest in between."""
        if self._even:
            ends = [(part.item(0), part.item(-1)) if isinstance(part, np.ndarray) else (part, part) for part in parts]
            first, last = zip(*ends, strict=True)
            bound: int = first.index(max(first))
            if bound == last.index(max(last)):
                return bound
        return super()._bounds(parts, steps)
