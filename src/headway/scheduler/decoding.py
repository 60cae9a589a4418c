"""The decode rows of a step: one token each, plus drafts, in as few vector operations as possible."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import IN_FLIGHT, Ints, PrefixGroup, ints
from headway.scheduler.running import Running
from headway.scheduler.sequence import Sequence, Status
from headway.scheduler.speculation import draft, draft_depth

_NO_ROWS = ints()


class DecodeRows(msgspec.Struct, frozen=True):
    slots: Ints
    starts: Ints
    drafts: dict[int, Ints]
    """By index into `slots`; rows without drafts are left out."""

    @property
    def num_tokens(self) -> int:
        return len(self.slots) + sum(map(len, self.drafts.values()))


class Decoding:
    """Chooses decode rows and finds them blocks. The set of rows is cached until it changes."""

    def __init__(self, config: SchedulerConfig, running: Running, preempt: Callable[[Sequence], None]) -> None:
        self.config = config
        self.running = running
        self._preempt = preempt
        self._slots = _NO_ROWS
        self._membership = -1
        self._prefix_groups: tuple[PrefixGroup, ...] | None = None

    def rows(self, plan_number: int) -> DecodeRows:
        """Every row that can take its next token now. A row that may draft waits for the draw that is in flight."""
        rows = self.running.rows
        slots = self._ready()
        starts = rows.planned[slots]
        depth = self._depth(len(slots))
        drafts = self._drafts(slots, depth) if depth else {}
        short = starts >= rows.capacity[slots]
        if np.count_nonzero(short):
            slots, starts = self._find_blocks(slots, starts, slots[short], plan_number)
            if len(slots) < len(short):
                drafts = {}
        if drafts:
            drafts = self._fit_drafts(slots, starts, drafts)
        return DecodeRows(slots, starts, drafts)

    def _ready(self) -> Ints:
        running = self.running
        if self._membership != running.membership:
            self._slots = running.rows.decoding.nonzero()[0]
            self._membership = running.membership
            self._prefix_groups = None
        if not running.in_flight:
            return self._slots
        slots, rows = self._slots, running.rows
        ready = rows.known[slots] < rows.limit[slots]
        if self._depth(len(slots)):
            ready &= rows.next_token[slots] != IN_FLIGHT
        else:
            undecided = [flight.plan.slots[flight.plan.drafts > 0] for flight in running.in_flight]
            ready &= ~np.isin(slots, np.concatenate(undecided))
        return slots[ready]

    def _depth(self, num_rows: int) -> int:
        policy = self.config.speculation
        return draft_depth(policy, num_rows, self.config.max_step_tokens) if policy else 0

    def _find_blocks(self, slots: Ints, starts: Ints, short: Ints, plan_number: int) -> tuple[Ints, Ints]:
        """A block for each row in `short`; by rank, and by preemption, where there are not enough for all."""
        running, cache = self.running, self.running.cache
        if len(short) <= cache.num_available():
            cache.grow_rows(running.rows, short, running.rows.capacity[short] + 1)
            return slots, starts
        for sequence in sorted(running.rows.sequence[short].tolist(), key=lambda s: s.rank):
            while not cache.num_available() and sequence.status is Status.RUNNING and not running.has_leaving:
                victim = running.worst(sequence.rank, plan_number)
                if victim is None:
                    break
                self._preempt(victim)
            if sequence.status is Status.RUNNING and cache.num_available():
                cache.grow(running.rows, sequence.slot, int(running.rows.capacity[sequence.slot]) + 1)
        keep = running.rows.decoding[slots] & (running.rows.capacity[slots] > starts)
        return slots[keep], starts[keep]

    def _drafts(self, slots: Ints, depth: int) -> dict[int, Ints]:
        """At most one less than the tokens left, so that accepted drafts and the draw after them stay in the limit."""
        policy, rows = self.config.speculation, self.running.rows
        assert policy is not None  # noqa: S101 - only called with speculation on
        drafts = {}
        for i, slot in enumerate(slots.tolist()):
            room = min(depth, int(rows.limit[slot] - rows.known[slot]) - 1)
            if room > 0 and rows.next_token[slot] != IN_FLIGHT:  # after a change of depth, some are
                found = draft(policy, rows.tokens[slot, : rows.known[slot]], room)
                if len(found):
                    drafts[i] = found
        return drafts

    def _fit_drafts(self, slots: Ints, starts: Ints, drafts: dict[int, Ints]) -> dict[int, Ints]:
        """Cuts drafts to the blocks at hand: nobody is preempted for a draft."""
        rows, cache = self.running.rows, self.running.cache
        fitted = {}
        for i, tokens in drafts.items():
            slot, start = int(slots[i]), int(starts[i])
            free = int(rows.capacity[slot]) - start - 1 + cache.num_available() * self.config.block_size
            tokens = tokens[:free]
            if len(tokens):
                cache.grow(rows, slot, start + 1 + len(tokens))
                fitted[i] = tokens
        return fitted

    def prefix_groups(self, slots: Ints) -> tuple[PrefixGroup, ...]:
        """Rows that share their first blocks, found anew when the set of decode rows changes."""
        if slots is not self._slots or self.config.late_blocks:  # a body that reads no tables has no use for them
            return ()
        if self._prefix_groups is None:
            self._prefix_groups = self._find_prefix_groups(slots)
        return self._prefix_groups

    def _find_prefix_groups(self, slots: Ints) -> tuple[PrefixGroup, ...]:
        if self.config.groups[0].kind != "full" or len(slots) < 2:
            return ()
        rows, size = self.running.rows, self.config.block_size
        _, inverse, count = np.unique(rows.tables[0][slots, 0], return_inverse=True, return_counts=True)
        groups = []
        for g in np.flatnonzero(count > 1).tolist():
            members = slots[inverse == g]
            width = int(rows.committed[members].min()) // size
            same = (rows.tables[0][members, :width] == rows.tables[0][members[0], :width]).all(axis=0)
            shared = width if same.all() else int(np.argmin(same))
            if shared:
                groups.append(PrefixGroup(members, shared))
        return tuple(groups)
