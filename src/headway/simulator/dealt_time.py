"""How long a step takes where sequences are dealt out to data groups, and each sequence's cache to context groups.

Most operations then depend on what the busiest chip sees: its share of the step. They are kept as lines over that;
routed experts and what chips send depend on the whole step too, and have a line for each number of its tokens. All of
it is asked of the cost model, never written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headway.arithmetic.attends import spans
from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.transfers import Transfer
from headway.arithmetic.work import Op, StepWork, step_work
from headway.roofline import StepCost, calibrated_cost, floor_cost
from headway.simulator.step_probes import Probes, VaryingOp, empty_shape
from headway.simulator.step_time import Ints, Step, Steps

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.shape import ModelShape
    from headway.catalog import System
    from headway.roofline import Coefficients

_MANY = 1 << 20
EXCHANGE = "context exchange"
"""The one transfer whose bytes depend on what is cached."""
_UNIT = np.arange(3)
"""Numbers of tokens from which a line is drawn: the last two, as no operation does anything for none."""


class Line(NamedTuple):
    at_zero: Any
    slope: Any

    def at(self, x: float) -> Any:
        return self.at_zero + self.slope * x


class Busy(NamedTuple):
    """Seconds, a float for one step or an array [k]. `device_s`: all of it, beside what the host takes by itself."""

    compute_s: Any
    memory_s: Any
    network_s: Any
    device_s: Any


class DealtTime:
    """A `Timer` for any cut; with pipeline stages, of one pass through all of them. Arguments as for `StepTime`.

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
        self._chip = Parallelism(tensor=cut.tensor)
        """One that sees the whole of a step: lines over what the busiest one sees are drawn with it."""
        self._tabulate(np.arange(max_step_tokens + 1))

    # Asked once

    def _work(self, shape: StepShape, cut: Parallelism) -> StepWork:
        return step_work(self._model, shape, self._precision, cut, domain=self._system.scaleup_chips)

    def _price(self, work: StepWork, shape: StepShape, cut: Parallelism) -> StepCost:
        if self._device is None:
            return floor_cost(work, self._system, cut.chips)
        return calibrated_cost(work, shape, self._system, self._device, cut)

    def _tabulate(self, tokens: Ints) -> None:
        """At both ends: one data group has all of a step's tokens, or each has as many."""
        shapes = [empty_shape(self.spans, tokens, sequences=np.full_like(tokens, n)) for n in (1, self._cut.data)]
        ends = [(shape, self._work(shape, self._cut)) for shape in shapes]
        seen = [shape.local_tokens(self._cut.data, self._cut.context) for shape in shapes]
        rows = [1 / np.maximum(x, 1) for x in seen]
        ops = ends[0][1].ops
        probes = Probes(lambda shape: self._work(shape, self._chip), self.spans)
        own = [i for i, op in enumerate(ops) if op.part != "experts"]
        self._fixed = [self._fixed_op(i) for i in own if i not in probes.varying]
        self._varying = [self._varying_op(i, probes) for i in own if i in probes.varying]
        self._experts = [
            tuple(
                _lines(rows, [getattr(self._alone(work, shape, op=work.ops[i]), which) for shape, work in ends])
                for which in ("compute_s", "memory_s")
            )
            for i in sorted(set(range(len(ops))) - set(own))
        ]
        even = [[t for t in work.transfers if t.name != EXCHANGE] for _, work in ends]
        sent = [self._network(work, shape, chosen) for (shape, work), chosen in zip(ends, even, strict=True)]
        self._sent = _lines(seen, sent)
        self._exchanges = [self._exchange(i) for i, t in enumerate(ends[0][1].transfers) if t.name == EXCHANGE]
        self._launch_s = float(np.max(self._price(replace(ends[0][1], transfers=()), shapes[0], self._cut).host_s))

    def _alone(self, work: StepWork, shape: StepShape, op: Op, cut: Parallelism | None = None) -> StepCost:
        return self._price(replace(work, ops=(op,), transfers=()), shape, cut or self._cut)

    def _network(self, work: StepWork, shape: StepShape, transfers: Sequence[Transfer]) -> FloatArray:
        cost = self._price(replace(work, transfers=tuple(transfers)), shape, self._cut)
        return np.broadcast_to(cost.network_s, shape.tokens.shape)

    def _fixed_op(self, i: int) -> tuple[Line, Line]:
        """Compute and memory time over the tokens that a chip sees."""
        shape = empty_shape(self.spans, _UNIT)
        work = self._work(shape, self._chip)
        cost = self._alone(work, shape, work.ops[i], self._chip)
        return _line(_UNIT, cost.compute_s), _line(_UNIT, cost.memory_s)

    def _varying_op(self, i: int, probes: Probes) -> tuple[VaryingOp, Line, bool]:
        """Beside it seconds of one FLOP over 1 / tokens seen, and whether it counts tokens of whole sequences."""
        shape = empty_shape(self.spans, _UNIT)
        work = self._work(shape, self._chip)
        op = probes.op(i, lambda op: self._alone(work, shape, op, self._chip), len(_UNIT))
        return op, _line(1 / np.maximum(_UNIT, 1), op.flop_s), work.ops[i].name == "state"

    def _exchange(self, i: int) -> tuple[float, float, float | None]:
        """Latency, seconds of a token's query, and of a cached entry if that may be sent in its place."""

        def asked(tokens: int, entries: int) -> float:
            reads = np.full(len(self.spans), entries, np.int64)
            shape = empty_shape(self.spans, tokens, sequences=np.int64(1), reads=reads)
            work = self._work(shape, self._cut)
            return float(self._network(work, shape, work.transfers[i : i + 1]))

        latency_s = asked(0, 0)
        whole = asked(1, 0) > latency_s
        return latency_s, asked(1, _MANY) - latency_s, None if whole else asked(_MANY, 1) - latency_s

    # Asked for each step

    def one(self, tokens: int, sequences: int, sampled: int, pairs: Any, reads: Any, writes: Any) -> Step:
        busy = self.busy(tokens, sequences, sampled, pairs, reads, writes)
        gap_s = self._host_gap_s + self._host_sequence_s * sequences
        parts = (busy.compute_s, busy.memory_s, busy.network_s, self._launch_s + gap_s)
        return Step(max(1, round(busy.device_s * 1e9)), round(gap_s * 1e9), parts.index(max(parts)))

    def several(
        self, steps: int, tokens: int, sequences: int, sampled: int, pairs: Any, reads: Any, writes: Any
    ) -> Steps:
        busy = self.busy(tokens, sequences, sampled, pairs, reads, writes, np.maximum, np.minimum)
        gap_s = self._host_gap_s + self._host_sequence_s * sequences
        parts = (busy.compute_s, busy.memory_s, busy.network_s, self._launch_s + gap_s)
        device_ns = np.maximum(np.rint(np.broadcast_to(busy.device_s, steps) * 1e9), 1).astype(np.int64)
        bounds = np.argmax([np.broadcast_to(part, steps) for part in parts], axis=0)
        return Steps(device_ns, round(gap_s * 1e9), bounds)

    def busy(
        self,
        tokens: int,
        sequences: int,
        sampled: int,
        pairs: Sequence[Any],
        reads: Sequence[Any],
        writes: Sequence[Any],
        larger: Callable[[Any, Any], Any] = max,
        smaller: Callable[[Any, Any], Any] = min,
    ) -> Busy:
        """Sums are by span, of the whole step; arrays [k] with NumPy's `larger` and `smaller`."""
        share = -(-sequences // self._cut.data) / max(sequences, 1)
        here = share / self._cut.context
        seen = max(tokens * here, min(tokens, 1))
        one_of_seen = 1 / max(seen, 1)
        drawn = max(sampled * here, min(sampled, 1))
        mine = [[count * here for count in counts] for counts in (pairs, reads, writes)]
        times: list[tuple[Any, Any]] = [(compute.at(seen), memory.at(seen)) for compute, memory in self._fixed]
        for compute, memory in self._experts:
            times.append((compute[tokens].at(one_of_seen), memory[tokens].at(one_of_seen)))
        for op, flop_s, whole in self._varying:
            flops = op.flops(tokens * (share if whole else here), drawn, mine[0], mine[1], larger, smaller)
            moved = op.moved_bytes(seen, sequences * share, drawn, mine[1], mine[2])
            times.append((flops * flop_s.at(one_of_seen), moved * op.byte_s))
        network_s = self._sent[tokens].at(seen)
        for latency_s, token_s, entry_s in self._exchanges:
            asked_s = tokens * token_s
            if entry_s is not None:
                asked_s = smaller(asked_s, reduce(larger, reads) * entry_s)
            network_s = network_s + latency_s + share * asked_s
        return self._together(times, network_s, sequences, larger, smaller)

    def _together(
        self, times: list[tuple[Any, Any]], network_s: Any, sequences: int, larger: Any, smaller: Any
    ) -> Busy:
        """As `floor_cost` and `calibrated_cost` put operations together."""
        compute_s, memory_s = (sum(column) for column in zip(*times, strict=True))
        if self._overlaps:
            return Busy(compute_s, memory_s, network_s, larger(larger(compute_s, memory_s), network_s))
        device_s = network_s + self._launch_s
        for pair in times:
            device_s = device_s + larger(*pair) + self._exposed * smaller(*pair)
        if self._beside:
            gap_s = self._host_gap_s + self._host_sequence_s * sequences
            device_s = self._beside * (np.hypot(device_s, gap_s) - gap_s) + (1 - self._beside) * device_s
        return Busy(compute_s, memory_s, network_s, device_s)


def _line(x: Any, y: Any) -> Line:
    """Through the last two points."""
    y = np.broadcast_to(y, x.shape)
    slope = float((y[-1] - y[-2]) / (x[-1] - x[-2]))
    return Line(float(y[-1] - slope * x[-1]), slope)


def _lines(x: list[FloatArray], y: list[FloatArray]) -> list[Line]:
    """For each number of tokens [T + 1] one through two points; level where these are one."""
    run, rise = x[1] - x[0], np.broadcast_to(y[1] - y[0], x[0].shape)
    slopes = np.divide(rise, run, out=np.zeros_like(run), where=run != 0)
    return [Line(*pair) for pair in zip((y[0] - slopes * x[0]).tolist(), slopes.tolist(), strict=True)]
