"""How long a step takes where sequences are dealt out to data groups, and each sequence's cache to context groups.

Most operations then depend on what the busiest chip sees: its share of the step. They are kept as lines over that;
routed experts and what chips send depend on the whole step too, and have a line for each number of its tokens. All of
it is asked of the cost model, never written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.spans import Ints
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.transfers import Transfer
from headway.arithmetic.work import StepWork
from headway.roofline import StepCost
from headway.simulator.step_probes import Probes, VaryingOp, empty_shape
from headway.simulator.step_time import Choice, Counts, Sums, TabulatedTime

Ends = list[tuple[StepShape, StepWork]]
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


class DealtTime(TabulatedTime):
    """For any cut."""

    # Asked once

    def _tabulate(self, tokens: Ints) -> None:
        """At both ends: one data group has all of a step's tokens, or each has as many."""
        self._chip = Parallelism(tensor=self._cut.tensor)
        """One that sees the whole of a step: lines over what the busiest one sees are drawn with it."""
        shapes = [empty_shape(self.spans, tokens, sequences=np.full_like(tokens, n)) for n in (1, self._cut.data)]
        ends = [(shape, self._work(shape)) for shape in shapes]
        self._tabulate_ops(ends)
        self._tabulate_transfers(ends)
        alone = replace(ends[0][1], transfers=())
        self._launch_s = float(np.max(self._price(alone, shapes[0]).host_s))

    def _tabulate_ops(self, ends: Ends) -> None:
        probes = Probes(lambda shape: self._work(shape, self._chip), self.spans)
        parts = [op.part for op in ends[0][1].ops]
        own = [i for i, part in enumerate(parts) if part != "experts"]
        self._fixed = [self._fixed_op(i) for i in own if i not in probes.varying]
        self._varying = [self._varying_op(i, probes) for i in own if i in probes.varying]
        self._experts = [self._expert_op(i, ends) for i, part in enumerate(parts) if part == "experts"]

    def _fixed_op(self, i: int) -> tuple[Line, Line]:
        """Compute and memory time over the tokens that a chip sees."""
        shape = empty_shape(self.spans, _UNIT)
        cost = self._alone(self._work(shape, self._chip), i, shape, self._chip)
        return _line(_UNIT, cost.compute_s), _line(_UNIT, cost.memory_s)

    def _varying_op(self, i: int, probes: Probes) -> tuple[VaryingOp, Line, bool]:
        """Beside it seconds of one FLOP over 1 / tokens seen, and whether it counts tokens of whole sequences."""
        shape = empty_shape(self.spans, _UNIT)
        work = self._work(shape, self._chip)
        alone = replace(work, transfers=())
        op = probes.op(i, lambda op: self._price(replace(alone, ops=(op,)), shape, self._chip), len(_UNIT))
        return op, _line(1 / np.maximum(_UNIT, 1), op.flop_s), work.ops[i].name == "state"

    def _expert_op(self, i: int, ends: Ends) -> tuple[list[Line], list[Line]]:
        """By the step's tokens, over 1 / tokens seen: the fewer rows, the less of the peak is reached."""
        costs = [self._alone(work, i, shape, self._cut) for shape, work in ends]
        x = [1 / np.maximum(seen, 1) for seen in self._seen(ends)]
        return _lines(x, [cost.compute_s for cost in costs]), _lines(x, [cost.memory_s for cost in costs])

    def _seen(self, ends: Ends) -> list[FloatArray]:
        return [shape.local_tokens(self._cut.data, self._cut.context) for shape, _ in ends]

    def _alone(self, work: StepWork, i: int, shape: StepShape, cut: Parallelism) -> StepCost:
        return self._price(replace(work, ops=work.ops[i : i + 1], transfers=()), shape, cut)

    def _tabulate_transfers(self, ends: Ends) -> None:
        """By the step's tokens, over the tokens that a chip sees."""
        even = [[t for t in work.transfers if t.name != EXCHANGE] for _, work in ends]
        sent = [self._network(work, shape, chosen) for (shape, work), chosen in zip(ends, even, strict=True)]
        self._sent = _lines(self._seen(ends), sent)
        self._exchanges = [self._exchange(i) for i, t in enumerate(ends[0][1].transfers) if t.name == EXCHANGE]

    def _network(self, work: StepWork, shape: StepShape, transfers: Sequence[Transfer]) -> FloatArray:
        cost = self._price(replace(work, transfers=tuple(transfers)), shape)
        return np.broadcast_to(cost.network_s, shape.tokens.shape)

    def _exchange(self, i: int) -> tuple[float, float, tuple[float, ...]]:
        """Latency, seconds of a token's query and, by span, of a cached entry; none where no entry may be sent in the
        query's place.
        """
        nothing = np.zeros(len(self.spans), np.int64)

        def asked(tokens: int, reads: Ints) -> float:
            shape = empty_shape(self.spans, tokens, sequences=np.int64(1), reads=reads)
            work = self._work(shape)
            return float(self._network(work, shape, work.transfers[i : i + 1]))

        latency_s = asked(0, nothing)
        entries_s: tuple[float, ...] = ()
        if asked(1, nothing) == latency_s:
            entries_s = tuple(asked(_MANY, one) - latency_s for one in np.eye(len(self.spans), dtype=np.int64))
        return latency_s, asked(1, nothing + _MANY) - latency_s, entries_s

    # Asked for each step

    def parts(self, step: Counts, larger: Choice, smaller: Choice) -> tuple[Any, float, tuple[Any, ...]]:
        tokens, sequences, sampled, pairs, reads, writes = step
        share = -(-sequences // self._cut.data) / max(sequences, 1)
        here = share / self._cut.context
        seen = max(tokens * here, min(tokens, 1))
        drawn = max(sampled * here, min(sampled, 1))
        mine = [[count * here for count in counts] for counts in (pairs, reads, writes)]
        times = self._times(tokens, seen)
        for op, flop_s, whole in self._varying:
            flops = op.flops(tokens * (share if whole else here), drawn, mine[0], mine[1], larger, smaller)
            moved = op.moved_bytes(seen, sequences * share, drawn, mine[1], mine[2])
            times.append((flops * flop_s.at(1 / max(seen, 1)), moved * op.byte_s))
        compute_s, memory_s = (sum(column) for column in zip(*times, strict=True))
        busy_s = sum(larger(*pair) + self._exposed * smaller(*pair) for pair in times)
        network_s = self._sent[tokens].at(seen)
        if self._exchanges:
            network_s = network_s + self._exchanged_s(tokens, share, reads, smaller)
        return self._together(compute_s, memory_s, network_s, busy_s, round(sequences * share), larger)

    def _times(self, tokens: int, seen: float) -> list[tuple[Any, Any]]:
        """Compute and memory time of the operations that depend on tokens alone."""
        fixed: list[tuple[Any, Any]] = [(compute.at(seen), memory.at(seen)) for compute, memory in self._fixed]
        x = 1 / max(seen, 1)
        return fixed + [(compute[tokens].at(x), memory[tokens].at(x)) for compute, memory in self._experts]

    def _exchanged_s(self, tokens: int, share: float, reads: Sums, smaller: Choice) -> Any:
        total_s: Any = 0.0
        for latency_s, token_s, entries_s in self._exchanges:
            asked_s = tokens * token_s
            if entries_s:
                asked_s = smaller(asked_s, sum(read * each_s for read, each_s in zip(reads, entries_s, strict=True)))
            total_s = total_s + latency_s + share * asked_s
        return total_s


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
