"""The prompt chunks of a step: prompts already begun, then new ones, in what the decodes left of the token budget."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import msgspec

from headway.scheduler.admission import Admission
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.running import Running
from headway.scheduler.sequence import Sequence, Status


class Chunk(msgspec.Struct, frozen=True):
    slot: int
    start: int
    count: int
    draws: bool


class Prompts:
    def __init__(
        self, config: SchedulerConfig, running: Running, admission: Admission, preempt: Callable[[Sequence], None]
    ) -> None:
        self.config = config
        self.running = running
        self.admission = admission
        self._preempt = preempt
        self._batch_is_open = True
        """Of static batching: from when nobody runs until somebody might have boarded and nobody could."""

    def yield_to_priority(self, plan_number: int, now_ns: int) -> None:
        """Before anyone boards: rows of worse priority make room for a prompt of better priority that has none.

        Or, where that prompt waits for another's blocks, it lends its priority at once, not when the budget allows.
        """
        running = self.running
        worst = max(running.priorities, default=None)
        if worst is None:
            return
        for sequence in sorted(running.begun, key=lambda s: s.rank):
            if sequence.priority < worst and sequence.status is Status.RUNNING:
                self._put_out(sequence, plan_number, partial(self._lacks_blocks, sequence))
        while (head := self.admission.queue.peek()) is not None and head.priority < worst:
            if not self.admission.parks(head, now_ns):
                self._put_out(head, plan_number, partial(self.admission.lacks_room, head))
                return

    def _put_out(self, sequence: Sequence, plan_number: int, in_need: Callable[[], bool]) -> None:
        while in_need() and not self.running.has_leaving:
            victim = self.running.worst((sequence.priority, sys.maxsize), plan_number)
            if victim is None:
                return
            self._preempt(victim)

    def _lacks_blocks(self, sequence: Sequence) -> bool:
        rows, cache = self.running.rows, self.running.cache
        held = int(rows.capacity[sequence.slot]) // self.config.block_size
        return not cache.has_room([cache.entries(int(rows.known[sequence.slot])) - held], [0] * len(cache.pools))

    def chunks(self, budget: int, plan_number: int, now_ns: int) -> list[Chunk]:
        may_admit = self._may_admit()
        if not self.running.begun and not self.admission.queue.num_requests:
            self._batch_is_open = False
            return []
        chunks: list[Chunk] = []
        for sequence in sorted(self.running.begun, key=lambda s: s.rank):
            if not budget or sequence.status is not Status.RUNNING:
                continue
            chunk = self._chunk(sequence, budget, plan_number)
            if chunk is None:
                may_admit = False
            else:
                chunks.append(chunk)
                budget -= chunk.count
        while budget and may_admit:
            admitted = self.admission.next(now_ns)
            if admitted is None:
                self._batch_is_open = False
                break
            chunk = self._chunk(admitted, budget, plan_number)
            if chunk is None:
                break
            chunks.append(chunk)
            budget -= chunk.count
        return chunks

    def _may_admit(self) -> bool:
        if self.config.batching == "continuous":
            return True
        self._batch_is_open = self._batch_is_open or not self.running.num
        return self._batch_is_open

    def _chunk(self, sequence: Sequence, budget: int, plan_number: int) -> Chunk | None:
        """As much of what is not planned yet as budget and blocks allow; None if that is nothing."""
        rows, slot = self.running.rows, sequence.slot
        start, known = int(rows.planned[slot]), int(rows.known[slot])
        wanted = min(known, start + budget)
        count = min(wanted, self._positions(sequence, wanted, plan_number)) - start
        if count <= 0:
            return None
        self.running.cache.grow(rows, slot, start + count)
        draws = False
        rows.planned[slot] = start + count
        rows.last_plan[slot] = plan_number
        if start + count == known:
            draws = bool(known < rows.limit[slot])
            rows.known[slot] += draws
            self.running.prompt_planned(sequence, draws)
        return Chunk(slot, start, count, draws)

    def _positions(self, sequence: Sequence, wanted: int, plan_number: int) -> int:
        """For how many positions the row has or can get blocks, preempting those of greater rank not in this step."""
        running, cache = self.running, self.running.cache
        held = int(running.rows.capacity[sequence.slot])
        needed = cache.entries(wanted) - held // self.config.block_size
        while needed > cache.num_available() and not running.has_leaving:
            victim = running.worst(sequence.rank, plan_number)
            if victim is None:
                break
            self._preempt(victim)
        return held + cache.num_available() * self.config.block_size
