"""A body without a model. What it draws depends on the first prompt token and the position only."""

from __future__ import annotations

import os
import signal
import time
from collections import deque

import numpy as np

from headway.scheduler.contract import RowLogprobs, StepOutcome, StepPlan, TokenLogprobs

VOCAB = 1000
POISON = 13
"""A prompt that begins with this kills the engine in its first step."""
LATE_POISON = 14
"""Kills the engine when it computes position 12, again and again."""
BAD_STEP = 15
"""The whole step fails, as if out of memory."""
BAD_ROW = 16
"""Only its row fails."""


def drawn(seed: int, position: int) -> int:
    """The token at a position of the sequence whose first token is `seed`; never a special one."""
    return 20 + (seed * 7919 + position * 104729) % (VOCAB - 20)


def continuation(seed: int, start: int, count: int) -> list[int]:
    return [drawn(seed, position) for position in range(start, start + count)]


class ScriptedExecutor:
    """Takes `step_s` for a step. After `ends_after` steps (0: never) the process gets the signal `ends_by`."""

    def __init__(self, step_s: float = 0.0, ends_after: int = 0, ends_by: int = signal.SIGKILL) -> None:
        self.plans: deque[StepPlan] = deque()
        self.most_in_flight = 0
        self._step_s = step_s
        self._steps_left, self._ends_by = ends_after or -1, ends_by
        self._seeds: dict[int, int] = {}
        self._prompts: dict[int, int] = {}

    def submit(self, plan: StepPlan) -> None:
        for slot in plan.released.tolist():
            self._seeds.pop(slot, None)
            self._prompts.pop(slot, None)
        for admitted in plan.admitted:
            self._seeds[admitted.slot] = int(admitted.tokens[0])
            if admitted.request.reads_whole_prompt:
                self._prompts[admitted.slot] = admitted.request.num_prompt_tokens
        self.plans.append(plan)
        self.most_in_flight = max(self.most_in_flight, len(self.plans))

    def collect(self) -> StepOutcome:
        plan = self.plans.popleft()
        if self._steps_left == 0:
            os.kill(os.getpid(), self._ends_by)
        self._steps_left -= 1
        time.sleep(self._step_s)
        slots, starts, counts = plan.slots.tolist(), plan.starts.tolist(), plan.counts.tolist()
        seeds = [self._seeds[slot] for slot in slots]
        ends = [start + count for start, count in zip(starts, counts, strict=True)]
        if POISON in seeds or any(s == LATE_POISON and e > 12 for s, e in zip(seeds, ends, strict=True)):
            os.kill(os.getpid(), signal.SIGKILL)
        if BAD_STEP in seeds:
            return StepOutcome(plan.number, np.zeros(0, np.int64), error="out of memory: 1 GiB at 0x7f00")
        tokens = [drawn(s, e) for s, e, draws in zip(seeds, ends, plan.samples.tolist(), strict=True) if draws]
        failed = [slot for slot, seed in zip(slots, seeds, strict=True) if seed == BAD_ROW]
        return StepOutcome(
            plan.number,
            np.array(tokens, np.int64),
            accepted=np.zeros(len(tokens), np.int64) if plan.drafts.any() else None,
            failed=np.array(failed, np.int64) if failed else None,
            logprobs=self._logprobs(slots, starts, ends) or None,
        )

    def _logprobs(self, slots: list[int], starts: list[int], ends: list[int]) -> dict[int, RowLogprobs]:
        """The logprob at a position is minus the position."""
        shown = {}
        for slot, start, end in zip(slots, starts, ends, strict=True):
            if slot in self._prompts:
                positions = range(max(1, start), min(end, self._prompts[slot]))
                shown[slot] = RowLogprobs(
                    (TokenLogprobs(drawn(self._seeds[slot], end), -float(end), 1, ()),) * (end >= self._prompts[slot]),
                    tuple(TokenLogprobs(0, -float(p), 1, ()) for p in positions),
                )
        return shown
