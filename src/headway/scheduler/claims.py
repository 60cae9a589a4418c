"""Who computes which block, so that a prefix that several requests need is computed once.

A sequence that gets a slot claims the keys of the blocks it is going to compute. One that arrives and needs a claimed
block parks behind the owner. Rules:

- the owner's blocks are published: those who needed no more are released and find them valid;
- the owner ends or is preempted: its claims lapse, all who wait are released, and the first of them to be admitted
  claims what is left;
- a waiter of better priority: the owner runs at that priority for as long as it is waited for.

Only queued sequences wait, and only for sequences with a slot, so there are no cycles.
"""

from __future__ import annotations

from headway.scheduler.sequence import Sequence, Status


class Claims:
    def __init__(self) -> None:
        self._owner: dict[bytes, Sequence] = {}

    def __len__(self) -> int:
        return len(self._owner)

    def make(self, sequence: Sequence, start: int, end: int) -> None:
        for key in sequence.keys[start:end]:
            self._owner.setdefault(key, sequence)

    def owner(self, sequence: Sequence, start: int, end: int) -> tuple[Sequence, int] | None:
        """Who computes block `start` of `sequence`, and up to which of its blocks, below `end`, that one computes."""
        if start >= end or (owner := self._owner.get(sequence.keys[start])) is None:
            return None
        stop = start + 1
        while stop < end and self._owner.get(sequence.keys[stop]) is owner:
            stop += 1
        return owner, stop

    def park(self, sequence: Sequence, owner: Sequence, num_blocks: int) -> None:
        sequence.status = Status.PARKED
        sequence.owner = owner
        owner.waiters.append((num_blocks, sequence))
        _inherit(owner)

    def unpark(self, sequence: Sequence) -> None:
        """It leaves the queue for another reason (cancelled, expired)."""
        owner = sequence.owner
        assert owner is not None  # noqa: S101 - parked sequences have an owner
        owner.waiters = [entry for entry in owner.waiters if entry[1] is not sequence]
        sequence.owner = None
        _inherit(owner)

    def published(self, owner: Sequence, start: int, end: int) -> list[Sequence]:
        """Lifts the owner's claims on blocks start .. end - 1; returns who needs no more than `end` blocks."""
        self._lift(owner, start, end)
        return self._release(owner, end)

    def lapse(self, owner: Sequence) -> list[Sequence]:
        """The owner gives up its slot: lifts all its claims and returns all who wait for it."""
        self._lift(owner, owner.published, len(owner.keys))
        return self._release(owner, len(owner.keys))

    def _lift(self, owner: Sequence, start: int, end: int) -> None:
        for key in owner.keys[start:end]:
            if self._owner.get(key) is owner:
                del self._owner[key]

    def _release(self, owner: Sequence, num_blocks: int) -> list[Sequence]:
        released = [waiter for needed, waiter in owner.waiters if needed <= num_blocks]
        if released:
            owner.waiters = [entry for entry in owner.waiters if entry[0] > num_blocks]
            for waiter in released:
                waiter.owner = None
            _inherit(owner)
        return released


def _inherit(owner: Sequence) -> None:
    owner.inherited_priority = min((waiter.request.priority for _, waiter in owner.waiters), default=None)
