"""Sequences that own a slot: how they get it, how they give it back, and when their blocks return to the pool."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

import msgspec
import numpy as np

from headway.scheduler.block_keys import BlockHasher
from headway.scheduler.claims import Claims
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Admitted, Ints, StepPlan, ints
from headway.scheduler.kv_cache import Hit, KVCache
from headway.scheduler.ledger import Ledger
from headway.scheduler.rows import Rows
from headway.scheduler.sequence import Sequence, Status

_NO_SLOTS = ints()


class InFlight(msgspec.Struct, frozen=True):
    plan: StepPlan
    planned_ns: int
    num_plain_decodes: int
    """Leading rows that have one token, no drafts, and a draw that is not the row's first; 0 where there are drafts."""


class Running:
    """Law: a slot and its blocks are given back only when every plan that uses them is committed."""

    def __init__(self, config: SchedulerConfig, cache: KVCache, claims: Claims, hasher: BlockHasher) -> None:
        self.config = config
        self.cache = cache
        self.claims = claims
        self.hasher = hasher
        self.rows = Rows(config)
        self.ledger = Ledger(config.max_running)
        self.in_flight: deque[InFlight] = deque()
        self.last_committed = -1
        self.begun: list[Sequence] = []
        """Sequences with more than one token to compute."""
        self.num = 0
        self.reserved = np.zeros(len(config.groups), np.int64)
        """Worst-case blocks, by group, of all who have a slot; counted only where they are reserved."""
        self._reserves = config.reservation == "worst_case"
        self.priorities: Counter[int] = Counter()
        self.membership = 0
        """Changes whenever a row begins or stops decoding."""
        self._leaving: list[Sequence] = []
        self._released: list[int] = []
        self._admitted: list[Admitted] = []

    def __iter__(self) -> Iterator[Sequence]:
        """Those who have a slot and are not about to give it back."""
        return (s for s in self.rows.sequence if s is not None and s.status is Status.RUNNING)

    @property
    def has_leaving(self) -> bool:
        return bool(self._leaving)

    def seat(self, sequence: Sequence, hit: Hit, now_ns: int) -> None:
        """Gives the sequence a slot and the blocks of its hit, which are held already."""
        size = self.config.block_size
        reused = hit.num_blocks * size
        sequence.slot = self.rows.take(sequence, reused, hit.num_blocks, size)
        sequence.status = Status.RUNNING
        sequence.published = hit.num_blocks
        if sequence.scheduled_ns is None:
            sequence.scheduled_ns = now_ns
            sequence.reused = min(reused, sequence.request.num_prompt_tokens)
        self.cache.adopt(self.rows, sequence, hit)
        self.claims.make(sequence, hit.num_blocks, len(sequence.keys))
        if self._reserves:
            self.reserved += self.cache.worst_case(sequence.request.limit)
        self.priorities[sequence.request.priority] += 1
        self.num += 1
        self.begun.append(sequence)
        tokens = self.rows.known_tokens(sequence.slot, sequence.num_tokens)
        self._admitted.append(Admitted(sequence.slot, sequence.request, tokens, reused))

    def prompt_planned(self, sequence: Sequence, draws: bool) -> None:
        """All its known tokens are planned: from now on it decodes, unless only its prompt was wanted."""
        self.begun.remove(sequence)
        if draws:
            self.rows.decoding[sequence.slot] = True
            self.membership += 1

    def leave(self, sequence: Sequence, status: Status) -> bool:
        """Takes it out of the next plans. True if it has left, False if plans in flight still use its slot."""
        slot = sequence.slot
        sequence.status = status
        if self.rows.decoding[slot]:
            self.rows.decoding[slot] = False
            self.membership += 1
        elif sequence in self.begun:
            self.begun.remove(sequence)
        self.priorities[sequence.request.priority] -= 1
        if not self.priorities[sequence.request.priority]:
            del self.priorities[sequence.request.priority]
        if self.rows.last_plan[slot] > self.last_committed:
            self._leaving.append(sequence)
            return False
        self._vacate(sequence)
        return True

    def left(self) -> list[Sequence]:
        """Those whose plans have been committed by now."""
        due = [s for s in self._leaving if self.rows.last_plan[s.slot] <= self.last_committed]
        if due:
            self._leaving = [s for s in self._leaving if s not in due]
            for sequence in due:
                self._vacate(sequence)
        return due

    def _vacate(self, sequence: Sequence) -> None:
        rows, slot = self.rows, sequence.slot
        committed, known = int(rows.committed[slot]), int(rows.known[slot])
        if self.config.token_ids:
            sequence.tokens = rows.tokens[slot, :known].copy()
        sequence.num_tokens = known
        if self.config.prefix_caching and sequence.reason != "error":
            if self.config.token_ids:
                self.hasher.extend(sequence.keys, sequence.tokens, sequence.request.salt)
            full = min(committed // self.config.block_size, len(sequence.keys))
            self.cache.publish(rows, sequence, full)
        self.cache.release(self.cache.held(rows, slot))
        sequence.charged = self.ledger.close(slot, sequence.charged)
        if self._reserves:
            self.reserved -= self.cache.worst_case(sequence.request.limit)
        rows.give_back(slot)
        self._released.append(slot)
        self.num -= 1
        sequence.slot = -1

    def take_released(self) -> Ints:
        if not self._released:
            return _NO_SLOTS
        released, self._released = ints(*self._released), []
        return released

    def take_admitted(self) -> tuple[Admitted, ...]:
        if not self._admitted:
            return ()
        admitted, self._admitted = tuple(self._admitted), []
        return admitted

    def worst(self, above: tuple[int, int], unplanned_since: int) -> Sequence | None:
        """Whom to preempt: the greatest rank, if it is above `above` and not in plan `unplanned_since` or later."""
        candidates = [s for s in self if s.rank > above and self.rows.last_plan[s.slot] < unplanned_since]
        return max(candidates, key=lambda s: s.rank, default=None)
