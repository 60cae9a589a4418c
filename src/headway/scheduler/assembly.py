"""Decode rows and prompt chunks become a StepPlan, and the rows move on to what they will be when it is committed."""

from __future__ import annotations

import numpy as np

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import IN_FLIGHT, Ints, PrefixGroup, StepPlan, ints
from headway.scheduler.decoding import DecodeRows
from headway.scheduler.prompts import Chunk
from headway.scheduler.running import Running
from headway.scheduler.transfers import Transfers
from headway.scheduler.waiting import WaitingQueue

_NO_INTS = ints()


class Assembly:
    def __init__(self, config: SchedulerConfig, running: Running, queue: WaitingQueue, transfers: Transfers) -> None:
        self.config = config
        self.running = running
        self.queue = queue
        self.transfers = transfers
        self._one_each = np.ones(config.max_running, np.int64)
        self._none_each = np.zeros(config.max_running, np.int64)
        self._all_draw = np.ones(config.max_running, np.bool_)

    def plan(
        self, number: int, decodes: DecodeRows, chunks: list[Chunk], prefix_groups: tuple[PrefixGroup, ...]
    ) -> StepPlan:
        """Chunks have moved their rows on already; decode rows move on here."""
        only_decodes = not chunks and not decodes.drafts
        repeats = self._repeats(decodes) if only_decodes and len(decodes.slots) else 1
        token_ids = self._token_ids(decodes, chunks)
        self._move_on(number, decodes)
        n = len(decodes.slots)
        slots, starts = decodes.slots, decodes.starts
        counts, drafts = self._one_each[:n], self._none_each[: n + len(chunks)]
        draws = self._all_draw[: n + len(chunks)]
        if decodes.drafts:
            drafts = drafts.copy()
            for i, tokens in decodes.drafts.items():
                drafts[i] = len(tokens)
            counts = counts + drafts[:n]
        if chunks:
            slots = np.concatenate([slots, [c.slot for c in chunks]])
            starts = np.concatenate([starts, [c.start for c in chunks]])
            counts = np.concatenate([counts, [c.count for c in chunks]])
            if not all(c.draws for c in chunks):
                draws = np.concatenate([draws[:n], [c.draws for c in chunks]])
        loads, saves = self.transfers.take_new()
        return StepPlan(
            number=number,
            slots=slots,
            starts=starts,
            counts=counts,
            drafts=drafts,
            samples=draws,
            token_ids=token_ids,
            released=self.running.take_released(),
            admitted=self.running.take_admitted(),
            blocks=self.running.cache.take_changes(),
            loads=loads,
            saves=saves,
            prefix_groups=prefix_groups,
            repeats=repeats,
        )

    def _move_on(self, number: int, decodes: DecodeRows) -> None:
        rows, slots = self.running.rows, decodes.slots
        if len(slots):
            rows.planned[slots] = decodes.starts + 1
            rows.known[slots] = decodes.starts + 2
            rows.last_plan[slots] = number
            if rows.has_tokens:
                rows.next_token[slots] = IN_FLIGHT

    def _token_ids(self, decodes: DecodeRows, chunks: list[Chunk]) -> Ints:
        """Row by row: each decode's last token and its drafts, then the chunks' tokens."""
        if not self.config.token_ids:
            return _NO_INTS
        rows = self.running.rows
        last = rows.next_token[decodes.slots]
        if not chunks and not decodes.drafts:
            return last
        parts: list[Ints] = []
        done = 0
        for i, drafted in decodes.drafts.items():
            parts += [last[done : i + 1], drafted]
            done = i + 1
        parts.append(last[done:])
        parts += [rows.tokens[c.slot, c.start : c.start + c.count].astype(np.int64) for c in chunks]
        return np.concatenate(parts)

    def _repeats(self, decodes: DecodeRows) -> int:
        """Steps until a row must end or there is no block; 1 where time or the drafts could change the next plan."""
        if self.config.speculation or self._watches_the_clock():
            return 1
        rows, slots = self.running.rows, decodes.slots
        to_limit = int((rows.limit[slots] - decodes.starts).min()) - 1
        room = rows.capacity[slots] - decodes.starts
        to_border = int(room.min())
        if to_limit > to_border and self._may_find_blocks_late():
            return max(1, self._steps_with_blocks(room, to_border, to_limit))
        return max(1, min(to_limit, to_border))

    def _may_find_blocks_late(self) -> bool:
        """Not where an eviction could matter at once: to transfers that are under way, or to one who waits and would
        load what has gone.
        """
        if not self.transfers.is_idle or (self.transfers.may_start and self.queue.num_requests):
            return False
        return self.config.late_blocks and not self.running.cache.has_windows

    def _watches_the_clock(self) -> bool:
        """Where the next plan may depend on when this one ends, or on when a block behind a window was let go."""
        if self.running.cache.has_windows and (self.config.tiers or self.config.kv_ttl_ns is not None):
            return True
        return self.queue.next_deadline_ns() is not None or self.transfers.next_deadline_ns() is not None

    def _steps_with_blocks(self, room: Ints, enough: int, wanted: int) -> int:
        """Steps, from `enough` to `wanted`, for which the blocks at hand last: nobody need be preempted.

        A row that goes `steps` on needs at most (steps - its room) / block size + 1 more blocks, so this may be a few
        steps less than the most.
        """
        size, available, rows = self.config.block_size, self.running.cache.num_available(), len(room)
        return min(wanted, max(enough, ((available - rows) * size + int(room.sum())) // rows))
