"""The virtual body's hands: a step takes as long as the cost model says, and rows end at their true lengths.

The brain never sees those lengths: a row's last token is the stop token, all others are the same meaningless one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from headway.arithmetic.spans import Span
from headway.roofline import BOUNDS
from headway.scheduler.contract import Ints, StepOutcome, StepPlan
from headway.scheduler.facts import AnswerKeys
from headway.simulator.step_time import Counts, Step, Steps
from headway.simulator.token_gaps import TokenGaps
from headway.simulator.world import World

STOP = 0
TOKEN = 1
MAX_JUMP = 4096
"""Steps in one jump at most: bounds the arrays."""
NO_TOKEN_YET = -1
_NO_STEP_YET = -2

_FULL = Span()
_NOTHING = Step(0, 0, 0)


class Timer(Protocol):
    """How long steps take; `StepTime` is one."""

    @property
    def spans(self) -> tuple[Span, ...]: ...

    def one(self, step: Counts) -> Step:
        """Of one step."""

    def several(self, steps: int, step: Counts) -> Steps:
        """Of as many steps, each with so many tokens and rows; sums are [steps] each."""


class _Answer(msgspec.Struct):
    """What is left of a request's answer while it has no slot."""

    request_id: str
    tokens_left: int
    keys: tuple[bytes, ...]
    last_token_ns: int = NO_TOKEN_YET


class ModelledExecutor:
    """Holds one plan at a time. Where the plan may be repeated, it runs until the first row ends, or until `cut`."""

    def __init__(self, world: World, timer: Timer, max_running: int, jumps: bool = True) -> None:
        self._world = world
        self._timer = timer
        self._jumps = jumps
        self._answers: dict[str, _Answer] = {}
        self._owner: list[_Answer | None] = [None] * max_running
        """By slot. One that was let go stays until a plan says so; by then its request may be here once more."""
        self._left = np.zeros(max_running, np.int64)
        self._last_ns = np.full(max_running, NO_TOKEN_YET, np.int64)
        self._plan: StepPlan | None = None
        self._draws: Ints = np.zeros(0, np.int64)
        """Slots that draw, in batch order."""
        self._steps = 0
        self._step = Step(0, 0, 0)
        self._several: Steps | None = None
        self._ends_ns: list[int] | Ints = []
        """When each step of the plan is over, host included."""
        self._began_ns = 0
        """When the first of several steps did."""
        self._last_end_ns = _NO_STEP_YET
        self._facts: list[AnswerKeys] = []
        self.gaps = TokenGaps()
        self.bound_ns = [0] * len(BOUNDS)
        self.device_ns = 0
        self.host_ns = 0
        self.num_steps = 0

    def expect(
        self,
        request_id: str,
        num_output_tokens: int,
        keys: tuple[bytes, ...] = (),
        last_token_ns: int = NO_TOKEN_YET,
    ) -> None:
        """How long the answer to a request will be, and the block keys of prompt and answer together, where known; when
        it got its last token elsewhere, if it goes on from there.

        Told to the body, before the brain hears of the request.
        """
        self._answers[request_id] = _Answer(request_id, num_output_tokens, keys, last_token_ns)

    def forget(self, request_id: str) -> None:
        """It has ended."""
        self._answers.pop(request_id, None)

    @property
    def expected(self) -> list[str]:
        """Ids of the requests that have not ended."""
        return list(self._answers)

    def last_token_ns(self, request_id: str) -> int:
        """When a request that has not ended got its last token, or NO_TOKEN_YET."""
        answer = self._answers[request_id]
        slot = next((slot for slot, owner in enumerate(self._owner) if owner is answer), None)
        return answer.last_token_ns if slot is None else int(self._last_ns[slot])

    # The Executor protocol

    def submit(self, plan: StepPlan) -> None:
        self._seat(plan)
        self._plan = plan
        self._draws, steps = plan.slots[plan.samples], 1
        if plan.repeats > 1 and self._jumps:
            steps = min(plan.repeats, int(self._left[self._draws].min()), MAX_JUMP)
        if steps > 1:
            self._jump(plan, steps)
        else:
            self._single(plan)

    def _single(self, plan: StepPlan) -> None:
        if not len(plan.slots):
            self._nothing()
            return
        sums = step_sums(self._timer.spans, plan.starts, plan.counts)
        self._step = self._timer.one((int(plan.counts.sum()), len(plan.slots), len(self._draws), *sums))
        self._several = None
        self._steps = 1
        self._ends_ns = [self._world.now_ns + self._step.device_ns + self._step.host_ns]

    def _nothing(self) -> None:
        """A plan that only moves KV takes the device no time."""
        self._step, self._several, self._steps = _NOTHING, None, 1
        self._ends_ns = [self._world.now_ns]

    def _jump(self, plan: StepPlan, steps: int) -> None:
        n = len(plan.slots)
        sums = [_sums_of_decodes(span, plan.starts, steps) for span in self._timer.spans]
        pairs, reads, writes = zip(*sums, strict=True) if sums else ((), (), ())
        self._several = several = self._timer.several(steps, (n, n, n, pairs, reads, writes))
        self._steps = steps
        self._began_ns = self._world.now_ns
        self._ends_ns = (several.device_ns + several.host_ns).cumsum() + self._began_ns

    @property
    def done_ns(self) -> int:
        """When what was submitted will be done."""
        return int(self._ends_ns[self._steps - 1])

    def cut(self) -> bool:
        """Something has happened: the step that runs now is the last of its plan. True if that changes anything."""
        steps = min(self._steps, bisect_right(self._ends_ns, self._world.now_ns) + 1)
        changed = steps < self._steps
        self._steps = steps
        return changed

    def collect(self) -> StepOutcome:
        plan, draws, steps = self._plan, self._draws, self._steps
        if plan is None:
            raise RuntimeError("no plan is in flight")
        self._plan = None
        device_ns = self._account(steps)
        left = self._left[draws] - steps
        self._left[draws] = left
        token_ids = np.empty(steps * len(draws), np.int64)
        token_ids.fill(TOKEN)
        over = (left == 0).nonzero()[0]
        if len(over):
            token_ids[over - len(draws)] = STOP
            self._complete(draws[over])
        if len(draws):
            self._note_gaps(steps)
        return StepOutcome(plan.number, token_ids, steps=steps, device_ns=device_ns)

    def keep_whole_steps(self) -> bool:
        """The machine is lost now: only those steps of the plan count that are over. False if none is."""
        whole = bisect_right(self._ends_ns, self._world.now_ns, hi=self._steps)
        self._steps = whole or self._steps
        return whole > 0

    def break_off(self, began_ns: int) -> StepOutcome:
        """The machine is lost in the plan's first step, which began then: it took time and gave nothing."""
        plan, several = self._plan, self._several
        if plan is None:
            raise RuntimeError("no plan is in flight")
        self._plan = None
        device_ns, _, bound = self._step
        if several is not None:
            device_ns = int(several.device_ns[0])
            bound = several.bounds if isinstance(several.bounds, int) else int(several.bounds[0])
        took_ns = self._world.now_ns - began_ns
        device_ns = min(took_ns, device_ns)
        self.bound_ns[bound] += took_ns
        self.device_ns += device_ns
        self.host_ns += took_ns - device_ns
        self.num_steps += 1
        return StepOutcome(plan.number, np.zeros(0, np.int64), device_ns=device_ns, error="the replica has failed")

    def clear(self) -> None:
        """Nothing is left of what it held; what it did stays counted."""
        self._answers.clear()
        self._owner = [None] * len(self._owner)
        self._facts = []

    def take_facts(self) -> list[AnswerKeys]:
        """What the answers that are now complete leave in the cache: for the brain, before the outcome."""
        facts, self._facts = self._facts, []
        return facts

    # Inside

    def _complete(self, slots: Ints) -> None:
        for slot in slots.tolist():
            answer = self._owner[slot]
            if answer is not None and answer.keys:
                self._facts.append(AnswerKeys(answer.request_id, answer.keys))

    def _seat(self, plan: StepPlan) -> None:
        """Slots change hands; what is left of a preempted answer is kept for its return."""
        if len(plan.released):
            for slot in plan.released.tolist():
                answer = self._owner[slot]
                if answer is not None:
                    answer.tokens_left, answer.last_token_ns = int(self._left[slot]), int(self._last_ns[slot])
                self._owner[slot] = None
        for admitted in plan.admitted:
            slot, answer = admitted.slot, self._answers[admitted.request.id]
            self._owner[slot] = answer
            self._left[slot], self._last_ns[slot] = answer.tokens_left, answer.last_token_ns

    def _account(self, steps: int) -> int:
        """Device time of the steps that ran, which is noted by bound as well."""
        several = self._several
        if several is None and self._step is _NOTHING:
            return 0
        if several is None:
            device_ns, host_ns, bound = self._step
            self.bound_ns[bound] += device_ns + host_ns
        else:
            took_ns, bounds = int(self._ends_ns[steps - 1]) - self._began_ns, several.bounds
            host_ns = several.host_ns * steps
            device_ns = took_ns - host_ns
            if isinstance(bounds, int):
                self.bound_ns[bounds] += took_ns
            else:
                bounds, each_ns = bounds[:steps], several.device_ns[:steps] + several.host_ns
                for bound in range(len(BOUNDS)):
                    self.bound_ns[bound] += int(each_ns[bounds == bound].sum())
        self.device_ns += device_ns
        self.host_ns += host_ns
        self.num_steps += steps
        return device_ns

    def _note_gaps(self, steps: int) -> None:
        """Nearly always, whoever draws has drawn in the step before."""
        draws, ends = self._draws, self._ends_ns
        first_ns, last_ns = int(ends[0]), self._last_ns[draws]
        unusual = last_ns[last_ns != self._last_end_ns].tolist()
        if len(unusual) < len(draws):
            self.gaps.add_one(first_ns - self._last_end_ns, len(draws) - len(unusual))
        for ns in unusual:
            if ns != NO_TOKEN_YET:
                self.gaps.add_one(first_ns - ns, 1)
        if isinstance(ends, np.ndarray):
            self.gaps.add(ends[:steps], len(draws))
        self._last_ns[draws] = self._last_end_ns = int(ends[steps - 1])


def step_sums(spans: Sequence[Span], starts: Ints, counts: Ints) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """By span, as a Timer asks for them: pairs, reads and writes of a step whose rows have `counts` tokens each."""
    sums = [_sums(span, starts, counts) for span in spans]
    pairs, reads, writes = zip(*sums, strict=True) if sums else ((), (), ())
    return pairs, reads, writes


def _sums(span: Span, starts: Ints, counts: Ints) -> tuple[int, int, int]:
    """Pairs, reads and writes of a step's rows together."""
    if span == _FULL:
        tokens = int(counts.sum())
        squares = int(counts @ (2 * starts + counts))
        return (squares + tokens) // 2, int(starts.sum()) + tokens, tokens
    return tuple(int(rule(starts, counts).sum()) for rule in (span.pairs, span.reads, span.writes))  # type: ignore[return-value]


def _sums_of_decodes(span: Span, starts: Ints, steps: int) -> tuple[Ints, Ints, Any]:
    """The same for each of `steps` steps [steps], in which every row moves on by one token."""
    n = len(starts)
    if span == _FULL:
        first = int(starts.sum()) + n
        seen = np.arange(first, first + n * steps, n)
        return seen, seen, n
    moved = starts[:, None] + np.arange(steps)
    ones = np.ones_like(moved)
    return span.pairs(moved, ones).sum(0), span.reads(moved, ones).sum(0), span.writes(moved, ones).sum(0)


def bound_shares(bound_ns: Sequence[int]) -> dict[str, float]:
    """Share of the busy time under each bound."""
    total = sum(bound_ns)
    return {name: ns / total if total else 0.0 for name, ns in zip(BOUNDS, bound_ns, strict=True)}
