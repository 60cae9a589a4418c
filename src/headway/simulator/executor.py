"""The virtual body's hands: a step takes as long as the cost model says, and rows end at their true lengths.

The brain never sees those lengths: a row's last token is the stop token, all others are the same meaningless one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.arithmetic.spans import Span
from headway.roofline import BOUNDS
from headway.scheduler.contract import StepOutcome, StepPlan
from headway.simulator.step_time import StepTime, Timing
from headway.simulator.token_gaps import TokenGaps
from headway.simulator.world import World

STOP = 0
TOKEN = 1
MAX_JUMP = 4096
"""Steps in one jump at most: bounds the arrays."""

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Answer:
    """What is left of a request's answer while it has no slot."""

    tokens_left: int
    last_token_ns: int = -1
    """-1: it has no token yet."""


@dataclass(frozen=True, slots=True)
class _Running:
    plan: StepPlan
    timing: Timing
    ends_ns: list[int]
    """Time at which each step is over, host included."""
    draws: Ints
    """Slots that draw, in batch order."""


class ModelledExecutor:
    """Holds one plan at a time. Where the plan may be repeated, it runs until the first row ends, or until `cut`."""

    def __init__(self, world: World, step_time: StepTime, max_running: int, jumps: bool = True) -> None:
        self._world = world
        self._step_time = step_time
        self._jumps = jumps
        self._answers: dict[str, _Answer] = {}
        self._owner: list[str | None] = [None] * max_running
        self._left = np.zeros(max_running, np.int64)
        self._last_ns = np.full(max_running, -1, np.int64)
        self._running: _Running | None = None
        self._steps = 0
        self.gaps = TokenGaps()
        self.bound_ns = [0] * len(BOUNDS)
        self.device_ns = 0
        self.host_ns = 0
        self.num_steps = 0

    def expect(self, request_id: str, num_output_tokens: int) -> None:
        """How long the answer to a request will be: told to the body, before the brain hears of the request."""
        self._answers[request_id] = _Answer(num_output_tokens)

    def forget(self, request_id: str) -> None:
        """It has ended."""
        self._answers.pop(request_id, None)

    # The Executor protocol

    def submit(self, plan: StepPlan) -> None:
        self._seat(plan)
        draws = plan.slots if plan.samples.all() else plan.slots[plan.samples]
        steps = 1
        if self._jumps and plan.repeats > 1:
            steps = min(plan.repeats, int(self._left[draws].min()), MAX_JUMP)
        timing = self._timing(plan, steps, len(draws))
        ends = np.cumsum(timing.device_ns + timing.host_ns) + self._world.now_ns
        self._running = _Running(plan, timing, ends.tolist(), draws)
        self._steps = steps

    @property
    def done_ns(self) -> int:
        """When what was submitted will be done."""
        return self._now().ends_ns[self._steps - 1]

    def cut(self) -> bool:
        """Something has happened: the step that runs now is the last of its plan. True if that changes anything."""
        ends, now_ns = self._now().ends_ns, self._world.now_ns
        steps = self._steps
        while steps > 1 and ends[steps - 2] > now_ns:
            steps -= 1
        changed = steps < self._steps
        self._steps = steps
        return changed

    def collect(self) -> StepOutcome:
        running, steps = self._now(), self._steps
        self._running = None
        draws, timing = running.draws, running.timing
        device_ns = int(timing.device_ns[:steps].sum())
        self._account(running, steps, device_ns)
        self._left[draws] -= steps
        token_ids = np.full(steps * len(draws), TOKEN, np.int64)
        if len(draws):
            token_ids[-len(draws) :][self._left[draws] == 0] = STOP
        return StepOutcome(running.plan.number, token_ids, steps=steps, device_ns=device_ns)

    # Inside

    def _now(self) -> _Running:
        if self._running is None:
            raise RuntimeError("no plan is in flight")
        return self._running

    def _seat(self, plan: StepPlan) -> None:
        """Slots change hands; what is left of a preempted answer is kept for its return."""
        for slot in plan.released.tolist():
            name = self._owner[slot]
            answer = self._answers.get(name) if name is not None else None
            if answer is not None:
                answer.tokens_left, answer.last_token_ns = int(self._left[slot]), int(self._last_ns[slot])
            self._owner[slot] = None
        for admitted in plan.admitted:
            slot, name = admitted.slot, admitted.request.id
            answer = self._answers[name]
            self._owner[slot] = name
            self._left[slot], self._last_ns[slot] = answer.tokens_left, answer.last_token_ns

    def _timing(self, plan: StepPlan, steps: int, sampled: int) -> Timing:
        sums = [_sums(span, plan.starts, plan.counts, steps) for span in self._step_time.spans]
        pairs, reads, writes = zip(*sums, strict=True) if sums else ((), (), ())
        return self._step_time.timing(int(plan.counts.sum()), len(plan.slots), sampled, pairs, reads, writes)

    def _account(self, running: _Running, steps: int, device_ns: int) -> None:
        timing, ends = running.timing, running.ends_ns
        host_ns = int(timing.host_ns[:steps].sum())
        self.device_ns += device_ns
        self.host_ns += host_ns
        self.num_steps += steps
        if steps == 1:
            self.bound_ns[int(timing.bound[0])] += device_ns + host_ns
        else:
            took_ns = timing.device_ns[:steps] + timing.host_ns[:steps]
            for i in np.unique(timing.bound[:steps]).tolist():
                self.bound_ns[i] += int(took_ns[timing.bound[:steps] == i].sum())
        draws = running.draws
        if not len(draws):
            return
        last = self._last_ns[draws]
        self.gaps.add((ends[0] - last)[last >= 0])
        if steps > 1:
            self.gaps.add((timing.device_ns + timing.host_ns)[1:steps], len(draws))
        self._last_ns[draws] = ends[steps - 1]


def _sums(span: Span, starts: Ints, counts: Ints, steps: int) -> tuple[Any, Any, Any]:
    """Pairs, reads and writes of all rows: of one step integers, of several [steps], in which every row moves on by one
    token a step.
    """
    if steps == 1:
        pairs, reads, writes = (int(rule(starts, counts).sum()) for rule in (span.pairs, span.reads, span.writes))
        return pairs, reads, writes
    if span == Span():
        seen = int(starts.sum()) + len(starts) * np.arange(1, steps + 1)
        return seen, seen, np.full(steps, len(starts), np.int64)
    moved = starts[:, None] + np.arange(steps)
    ones = np.ones_like(moved)
    return span.pairs(moved, ones).sum(0), span.reads(moved, ones).sum(0), span.writes(moved, ones).sum(0)


def bound_shares(bound_ns: Sequence[int]) -> dict[str, float]:
    """Share of the busy time under each bound."""
    total = sum(bound_ns)
    return {name: ns / total if total else 0.0 for name, ns in zip(BOUNDS, bound_ns, strict=True)}
