"""How long a step takes on a replica whose attention is on one kind of chip and whose feed-forward is on another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism, weight_bytes_by_part
from headway.arithmetic.work import step_work
from headway.roofline import Coefficients
from headway.roofline.split import FEED_FORWARD, MAX_MICRO_BATCHES, crossings, hop_link, hops_s, side_time
from headway.simulator.dealt_time import EXCHANGE, DealtTime
from headway.simulator.staged_time import micro_batch
from headway.simulator.step_probes import empty_shape
from headway.simulator.step_time import Choice, Counts, Step, Steps

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.shape import ModelShape
    from headway.arithmetic.step_shape import StepShape
    from headway.arithmetic.work import StepWork
    from headway.catalog import System

_SENT = ("after attention", EXCHANGE)


@dataclass(frozen=True, slots=True)
class FeedForwardSide:
    """`chips` of `system`, over which the feed-forward is cut evenly."""

    system: System
    chips: int

    def check_fits(self, model: ModelShape, precision: Precision, usable: float) -> None:
        """Raises ShapeError that says how many chips would do."""
        parts = weight_bytes_by_part(model, precision, Parallelism())
        weights_bytes = sum(size for part, size in parts.items() if part in FEED_FORWARD)
        chip = self.system.chip
        room_bytes = chip.hbm_bytes * usable
        if weights_bytes > room_bytes * self.chips:
            raise ShapeError(
                f"feed-forward takes {weights_bytes / 1e9 / self.chips:.4g} GB on each of {self.chips} {chip.name} and "
                f"{room_bytes / 1e9:.4g} GB are usable: --ffn-chips {int(-(-weights_bytes // room_bytes))} would do"
            )


class _AttentionTime(DealtTime):
    """Of attention alone, each operation at its floor."""

    def _work(self, shape: StepShape, cut: Parallelism | None = None) -> StepWork:
        work = super()._work(shape, cut)
        ops = (op for op in work.ops if op.part not in FEED_FORWARD)
        at_floor = tuple(replace(op, activation_bytes=np.zeros_like(op.activation_bytes)) for op in ops)
        return replace(work, ops=at_floor, transfers=tuple(t for t in work.transfers if t.name in _SENT))


class _Round(NamedTuple):
    """Seconds, floats or arrays [k]: of the whole step, of one micro-batch on the slower side, and what it spends on
    its way.
    """

    step_s: Any
    side_s: Any
    compute_s: Any
    memory_s: Any
    network_s: Any


class SplitTime:
    """A step's rows are dealt out to micro-batches, as rows alike: while one is in the feed-forward, another is in
    attention. As many of them as make the step the shortest, which is the planner's choice too.

    Raises ShapeError for a cut by layers or experts and for a system without links, and what `step_work` raises.
    """

    def __init__(
        self,
        model: ModelShape,
        precision: Precision,
        cut: Parallelism,
        system: System,
        feed_forward: FeedForwardSide,
        max_step_tokens: int,
        host_gap_s: float = 0.0,
    ) -> None:
        """`cut`: attention's, over chips of `system`."""
        if cut.pipeline > 1 or cut.expert > 1:
            raise ShapeError("with --ffn-system attention is cut by --data, --tensor and --context-parallel only")
        self._attention = _AttentionTime(model, precision, cut, system, max_step_tokens, Coefficients())
        self.spans = self._attention.spans
        self._groups = cut.data
        self._gap_s = host_gap_s
        every = empty_shape(self.spans, np.arange(max_step_tokens + 1))
        side = side_time(step_work(model, every, precision), feed_forward.system, True, feed_forward.chips)
        self._feed_forward = [tuple(row) for row in np.stack(side, -1).tolist()]
        link = hop_link(system, cut.chips, feed_forward.system, feed_forward.chips)
        token_bytes = precision.small.size_bytes(model.hidden)
        self._hops_s = [hops_s(link, crossings(model), tokens * token_bytes) for tokens in range(max_step_tokens + 1)]

    def one(self, step: Counts) -> Step:
        best = self._best(step)
        parts = (*best[2:], self._gap_s)
        return Step(max(1, round(best.step_s * 1e9)), round(self._gap_s * 1e9), parts.index(max(parts)))

    def _best(self, step: Counts) -> _Round:
        """No side is quicker than with the most micro-batches, so that many times its time is a lower bound."""
        last = self._round(self._most(step), step, max, min)
        rounds: list[_Round] = []
        for number in range(1, self._most(step)):
            if rounds and number * last.side_s >= min(choice.step_s for choice in rounds):
                break
            rounds.append(self._round(number, step, max, min))
        return min([*rounds, last], key=lambda choice: choice.step_s)

    def several(self, steps: int, step: Counts) -> Steps:
        rounds = [self._round(n, step, np.maximum, np.minimum) for n in range(1, self._most(step) + 1)]
        choices = np.stack([[np.broadcast_to(x, steps) for x in (*choice, self._gap_s)] for choice in rounds])
        best = choices[choices[:, 0].argmin(0), :, np.arange(steps)]
        device_ns = np.maximum(np.rint(best[:, 0] * 1e9), 1).astype(np.int64)
        return Steps(device_ns, round(self._gap_s * 1e9), best[:, 2:].argmax(1))

    def _most(self, step: Counts) -> int:
        """Micro-batches at most: none of attention's data groups is without a row as long as there are enough."""
        return min(MAX_MICRO_BATCHES, max(1, step[1] // self._groups))

    def _round(self, number: int, step: Counts, larger: Choice, smaller: Choice) -> _Round:
        part = micro_batch(number, step)
        attention_s, _, mine = self._attention.parts(part, larger, smaller)
        compute_s, memory_s, feed_forward_s = self._feed_forward[part[0]]
        crossing_s = self._hops_s[part[0]]
        side_s = larger(attention_s, feed_forward_s)
        return _Round(
            larger(side_s * number, attention_s + feed_forward_s + crossing_s),
            side_s,
            mine[0] + compute_s,
            mine[1] + memory_s,
            mine[2] + crossing_s,
        )
