"""Blocks on their way from a slower tier.

The brain knows what its own tiers hold; what others hold, it is told. A request whose prefix goes on in a slower tier
waits for a load, up to a time limit, then computes instead. A load's blocks stay out of use until the body says how
the load ended: it might write into them until then.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from headway.scheduler.contract import Load, Save, ints
from headway.scheduler.facts import TierHolds, TierLost
from headway.scheduler.kv_cache import KVCache
from headway.scheduler.saves import Saves
from headway.scheduler.sequence import Sequence, Status
from headway.scheduler.tiers import Tiers

MAX_TRANSFERS = 256
MAX_TIER_KEYS = 1_000_000
MAX_TRIES = 4
"""Loads for one sequence from one block on: what is lost again each time, or never comes, is computed."""


@dataclass(slots=True)
class _Transfer:
    load: Load
    sequence: Sequence | None
    """Who waits; None once it stopped waiting."""
    deadline_ns: int
    tokens: npt.NDArray[np.int32]
    """[blocks, block_size]; empty where there are no ids."""


class Transfers:
    def __init__(self, cache: KVCache, tiers: Tiers, timeout_ns: int) -> None:
        self._cache = cache
        self._timeout_ns = timeout_ns
        self._numbers = count()
        self.tiers = tiers
        self.saves = Saves(cache, tiers, self._numbers)
        self._tier_of: OrderedDict[bytes, str] = OrderedDict()
        self._active: dict[int, _Transfer] = {}
        self._new: list[Load] = []
        self.blocks_loaded: Counter[str] = Counter()
        """By tier."""

    @property
    def is_idle(self) -> bool:
        return not self._active and self.saves.is_idle

    @property
    def may_start(self) -> bool:
        """There is something somewhere that could be loaded."""
        return bool(self._tier_of or self.tiers)

    def active_loads(self) -> list[Load]:
        return [transfer.load for transfer in self._active.values()]

    @property
    def has_new(self) -> bool:
        return bool(self._new) or self.saves.has_new

    def tell(self, fact: TierHolds | TierLost) -> None:
        for key in fact.keys:
            self._tier_of.pop(key, None)
            if isinstance(fact, TierHolds):
                self._tier_of[key] = fact.tier
        while len(self._tier_of) > MAX_TIER_KEYS:
            self._tier_of.popitem(last=False)

    def start(self, sequence: Sequence, start: int, end: int, now_ns: int) -> int | None:
        """Begins to load blocks `start` and on, as many below `end` as one tier holds and there is room for.

        Returns where the load stops, or None if there is nothing to load.
        """
        if (
            not self.may_start
            or not sequence.may_load
            or not self._cache.can_reuse
            or len(self._active) >= MAX_TRANSFERS
        ):
            return None
        tier = self._holding(sequence, start) if start < end else None
        stop = start
        while tier is not None and stop < end and self._holding(sequence, stop) == tier:
            stop += 1
        stop = min(stop, start + self._cache.num_available())
        if tier is None or stop == start or not self._pays(tier, stop - start) or not _tries(sequence, start):
            return None
        self._cache.used(sequence.keys[:start])  # Or the load could evict what it is to follow.
        blocks = tuple(ints(*pool.allocate(stop - start)) for pool in self._cache.pools)
        keys = tuple(sequence.keys[start:stop])
        load = Load(next(self._numbers), keys, tier, blocks, ints(*self.tiers.hold(tier, keys)))
        size = self._cache.config.block_size
        tokens = sequence.tokens[start * size : stop * size].reshape(-1, size)
        self._active[load.transfer] = _Transfer(load, sequence, now_ns + self._timeout_ns, tokens)
        self._new.append(load)
        sequence.status = Status.LOADING
        return stop

    def _pays(self, tier: str, num_blocks: int) -> bool:
        token_ns = self._cache.config.prompt_token_ns
        if token_ns is None:
            return True
        return self.tiers.load_ns(tier, num_blocks) < num_blocks * self._cache.config.block_size * token_ns

    def _holding(self, sequence: Sequence, block: int) -> str | None:
        key = sequence.keys[block]
        return self.tiers.holding(key, sequence.failed_tiers) or self._tier_of.get(key)

    def take_new(self) -> tuple[tuple[Load, ...], tuple[Save, ...]]:
        loads, self._new = tuple(self._new), []
        return loads, self.saves.take_new()

    def arrived(self, number: int, ok: bool) -> Sequence | None:
        """Returns who waited for it, if somebody still does. An unknown number is ignored: it ended before."""
        transfer = self._active.pop(number, None)
        if transfer is None:
            self.saves.arrived(number, ok)
            return None
        load = transfer.load
        blocks = [array.tolist() for array in load.blocks]
        if ok:
            self._cache.publish_loaded(load.keys, blocks, transfer.tokens)
            self.blocks_loaded[load.tier] += len(load.keys)
        else:
            self.tell(TierLost(load.keys))
            if transfer.sequence is not None:
                transfer.sequence.failed_tiers |= {load.tier}
        self._cache.release(blocks)
        self.tiers.release(load.tier, load.sources.tolist())
        return transfer.sequence

    def abandon(self, sequence: Sequence) -> None:
        """It leaves the queue; the transfer goes on without it."""
        for transfer in self._active.values():
            if transfer.sequence is sequence:
                transfer.sequence = None

    def timed_out(self, now_ns: int) -> list[Sequence]:
        """Who waited too long; they compute instead."""
        late = []
        for transfer in self._active.values():
            if transfer.sequence is not None and transfer.deadline_ns <= now_ns:
                transfer.sequence.may_load = False
                late.append(transfer.sequence)
                transfer.sequence = None
        return late

    def next_deadline_ns(self) -> int | None:
        return min((t.deadline_ns for t in self._active.values() if t.sequence is not None), default=None)


def _tries(sequence: Sequence, start: int) -> bool:
    """Whether one more load from here on is allowed."""
    if start > sequence.load_start:
        sequence.load_start, sequence.load_tries = start, 0
    sequence.load_tries += 1
    return sequence.load_tries <= MAX_TRIES
