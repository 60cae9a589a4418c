"""Blocks on their way down: when a sequence ends, each tier gets what it lacks from the memory above it.

So a block that the device or a near tier gives up later needs no copying then. While a copy is under way nobody may
write into either side. Copies are a favour: where there is no room for one, or too many are under way, it is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway.scheduler.contract import DEVICE, Ints, Save, ints
from headway.scheduler.kv_cache import KVCache
from headway.scheduler.tiers import Tiers

MAX_SAVES = 64
DEVICE_SHARE = 4
"""One in so many of the device's blocks may be held by copies; what they leave over is copied after them."""


@dataclass(frozen=True, slots=True)
class _Copy:
    save: Save
    sequence_keys: Sequence[bytes]
    """All keys of the sequence, head first: a tier must not give up the head before the tail, whichever came first."""


class Saves:
    """`numbers` gives every transfer its number."""

    def __init__(self, cache: KVCache, tiers: Tiers, numbers: Iterator[int]) -> None:
        self._cache = cache
        self._tiers = tiers
        self._numbers = numbers
        self._active: dict[int, _Copy] = {}
        self._new: list[Save] = []
        self._under_way: set[tuple[str, bytes]] = set()
        self._device_blocks = 0
        self._left_over: deque[tuple[Sequence[bytes], Sequence[bytes]]] = deque(maxlen=MAX_SAVES)
        """Keys still to be copied from the device, and all keys of their sequence. Nothing holds their blocks."""

    @property
    def has_new(self) -> bool:
        return bool(self._new)

    @property
    def is_idle(self) -> bool:
        return not self._active

    def active(self) -> list[Save]:
        return [copy.save for copy in self._active.values()]

    def take_new(self) -> tuple[Save, ...]:
        saves, self._new = tuple(self._new), []
        return saves

    def ended(self, keys: Sequence[bytes]) -> None:
        """A sequence that used these blocks has given them up."""
        if self._tiers.nearest is None or not self._cache.can_reuse:
            return
        self._tiers.used(keys)
        most = self._tiers.pools[self._tiers.nearest].num_blocks  # more would push out its own head
        self._from_device(keys[:most], keys)
        for upper, lower in self._tiers.below.items():
            self._from_tier(upper, lower, keys, keys)

    def arrived(self, number: int, ok: bool) -> None:
        """A copy has ended, and may now be copied on. An unknown number is ignored."""
        copy = self._active.pop(number, None)
        if copy is None:
            return
        save = copy.save
        self._under_way.difference_update((save.tier, key) for key in save.keys)
        target, targets = self._tiers.pools[save.tier], save.targets.tolist()
        if ok:
            for key, block in zip(save.keys, targets, strict=True):
                target.publish(block, key)
        target.release(targets)
        self._let_go(copy)
        self._tiers.used(copy.sequence_keys)
        for _ in range(len(self._left_over)):
            self._from_device(*self._left_over.popleft())
        lower = self._tiers.below.get(save.tier)
        if lower is not None:
            self._from_tier(save.tier, lower, save.keys, copy.sequence_keys)

    def _let_go(self, copy: _Copy) -> None:
        save = copy.save
        sources = [array.tolist() for array in save.blocks]
        if save.source == DEVICE:
            self._device_blocks -= len(save.keys)
            self._cache.release(sources)
            self._cache.used(copy.sequence_keys)
        else:
            self._tiers.release(save.source, sources[0])

    def _from_device(self, keys: Sequence[bytes], sequence_keys: Sequence[bytes]) -> None:
        """What is left over is tried later, and each key once only: somebody else's blocks may push out its own."""
        tier = self._tiers.nearest
        if tier is None:
            return
        missing = [key for key in self._missing(tier, keys) if self._cache.has(key)]
        room = max(0, self._cache.pools[0].num_blocks // DEVICE_SHARE - self._device_blocks)
        now = self._fitting(tier, missing[:room])
        if missing[room:]:
            self._left_over.append((missing[room:], sequence_keys))
        if now:
            self._device_blocks += len(now)
            self._begin(
                DEVICE, tuple(ints(*pool.hold_keys(now)) for pool in self._cache.pools), tier, now, sequence_keys
            )

    def _from_tier(self, source: str, tier: str, keys: Sequence[bytes], sequence_keys: Sequence[bytes]) -> None:
        pool = self._tiers.pools[source]
        now = self._fitting(tier, [key for key in self._missing(tier, keys) if pool.find(key) is not None])
        if now:
            self._begin(source, (ints(*pool.hold_keys(now)),), tier, now, sequence_keys)

    def _missing(self, tier: str, keys: Sequence[bytes]) -> list[bytes]:
        pool = self._tiers.pools[tier]
        return [key for key in keys if pool.find(key) is None and (tier, key) not in self._under_way]

    def _fitting(self, tier: str, keys: list[bytes]) -> list[bytes]:
        """The head of it, as much as the tier has room for."""
        return keys[: self._tiers.pools[tier].num_available] if len(self._active) < MAX_SAVES else []

    def _begin(
        self, source: str, blocks: tuple[Ints, ...], tier: str, keys: list[bytes], sequence_keys: Sequence[bytes]
    ) -> None:
        targets = ints(*self._tiers.pools[tier].allocate(len(keys)))
        save = Save(next(self._numbers), tuple(keys), source, blocks, tier, targets)
        self._active[save.transfer] = _Copy(save, sequence_keys)
        self._new.append(save)
        self._under_way.update((tier, key) for key in keys)
