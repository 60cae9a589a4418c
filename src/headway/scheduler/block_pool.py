"""The blocks of one cache group: who holds them, which are valid under a key, which may be evicted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class BlockPool:
    """Block ids are 0 .. num_blocks - 1. A block is in exactly one of three places:

        free        nobody holds it and it has no key                       (`_free`)
        computing   held, and no key yet: a row computes it or a transfer fills it
        valid       found under its key; held by any number of rows, or by none and then evictable, least
                    recently used first                                     (`_cached`)

    Law: free + cached + held = all.

    With `ttl_ns`, what nobody held for longer is evicted as soon as `at` says so.
    """

    def __init__(self, num_blocks: int, ttl_ns: int | None = None) -> None:
        self.num_blocks = num_blocks
        self.ttl_ns = ttl_ns
        self.now_ns = 0
        self.held_block_ns = 0
        """Blocks times the nanoseconds for which they were held: KV in use, over time."""
        self.idle_block_ns = 0
        """The same of those that nobody held, kept for a later request."""
        self._free = list(range(num_blocks - 1, -1, -1))
        self._cached: OrderedDict[int, int] = OrderedDict()
        """Since when nobody holds it."""
        self._index: dict[bytes, int] = {}
        self._keys: list[bytes | None] = [None] * num_blocks
        self._more_holders: dict[int, int] = {}
        """Of blocks that several hold: how many do beside the first."""

    @property
    def num_available(self) -> int:
        return len(self._free) + len(self._cached)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_held(self) -> int:
        return self.num_blocks - self.num_available

    def at(self, now_ns: int) -> None:
        """Time goes on, and never back."""
        elapsed_ns = now_ns - self.now_ns
        if elapsed_ns <= 0:
            return
        cached = len(self._cached)
        self.held_block_ns += (self.num_blocks - len(self._free) - cached) * elapsed_ns
        self.idle_block_ns += cached * elapsed_ns
        self.now_ns = now_ns
        if self.ttl_ns is not None:
            self._expire(self.ttl_ns)

    def _expire(self, ttl_ns: int) -> None:
        while self._cached:
            late_ns = self.now_ns - next(iter(self._cached.values())) - ttl_ns
            if late_ns <= 0:
                return
            self.idle_block_ns -= late_ns
            self._evict()

    def find(self, key: bytes) -> int | None:
        return self._index.get(key)

    def allocate(self, count: int) -> list[int]:
        """Takes `count` blocks, evicting cached ones where needed. The caller has checked `num_available`."""
        if count == 0:
            return []
        while len(self._free) < count:
            self._evict()
        blocks = self._free[-count:]
        del self._free[-count:]
        return blocks

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holder for each of these valid blocks."""
        for block in blocks:
            if self._cached.pop(block, None) is None:
                self._more_holders[block] = self._more_holders.get(block, 0) + 1

    def hold_keys(self, keys: Iterable[bytes]) -> list[int]:
        """The blocks of those of the keys that are valid here, each with one more holder."""
        blocks = [block for key in keys if (block := self._index.get(key)) is not None]
        self.hold(blocks)
        return blocks

    def touch(self, keys: Iterable[bytes]) -> None:
        """Those that are valid here are used now. The tail first, so that it is evicted before the head."""
        for key in reversed(list(keys)):
            if (block := self._index.get(key)) is not None and block in self._cached:
                self._cached[block] = self.now_ns
                self._cached.move_to_end(block)

    def num_evictable(self, blocks: Sequence[int]) -> int:
        return sum(block in self._cached for block in blocks)

    def publish(self, block: int, key: bytes) -> bool:
        """Makes a held block findable. False where the key already has a block, or the block a key."""
        if key in self._index or self._keys[block] is not None:
            return False
        self._index[key] = block
        self._keys[block] = key
        return True

    def release(self, blocks: Sequence[int]) -> None:
        """Gives up one hold on each. Called with a sequence's blocks in order: its tail is evicted before its head."""
        if not self._index:  # nothing can be found, so nothing has a second holder
            self._free.extend(reversed(blocks))
            return
        for block in reversed(blocks):
            if block in self._more_holders:
                self._let_go(block)
            elif self._keys[block] is None:
                self._free.append(block)
            else:
                self._cached[block] = self.now_ns

    def _let_go(self, block: int) -> None:
        """One of several holders does."""
        self._more_holders[block] -= 1
        if not self._more_holders[block]:
            del self._more_holders[block]

    def _evict(self) -> None:
        block, _ = self._cached.popitem(last=False)
        key = self._keys[block]
        assert key is not None  # noqa: S101 - only published blocks are cached
        del self._index[key]
        self._keys[block] = None
        self._free.append(block)

    def holds(self) -> dict[int, int]:
        """How often each held block is held."""
        idle = {*self._free, *self._cached}
        return {block: 1 + self._more_holders.get(block, 0) for block in range(self.num_blocks) if block not in idle}

    def check(self) -> None:
        """Raises AssertionError unless the laws of the pool hold: for tests, and when the brain is idle."""
        free, cached, held = set(self._free), set(self._cached), set(self.holds())
        checks = (
            len(free) == len(self._free),
            len(free) + len(cached) + len(held) == self.num_blocks,
            not (free & cached),
            all(self._keys[block] is None for block in free),
            all(self._keys[block] is not None for block in cached),
            all(self._keys[block] == key for key, block in self._index.items()),
            len(self._index) == sum(key is not None for key in self._keys),
            all(block in held and self._keys[block] is not None for block in self._more_holders),
            all(more > 0 for more in self._more_holders.values()),
        )
        if not all(checks):
            raise AssertionError(f"block pool is inconsistent: {checks}")
