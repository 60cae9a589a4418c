"""The slower memories below the device: what each holds, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from headway.scheduler.block_pool import BlockPool
from headway.scheduler.config import Tier


class Tiers:
    """Nearest first. Each is a pool of blocks like the device's: a block is free, being filled, or valid under its key;
    least recently used goes first, and by its time to live.
    """

    def __init__(self, tiers: tuple[Tier, ...]) -> None:
        self.pools = {tier.name: BlockPool(tier.num_blocks, tier.ttl_ns) for tier in tiers}
        self._speeds = {tier.name: (tier.latency_ns, tier.block_ns) for tier in tiers}
        self.nearest = tiers[0].name if tiers else None
        self.below = {upper.name: lower.name for upper, lower in pairwise(tiers)}

    def __bool__(self) -> bool:
        return bool(self.pools)

    @property
    def num_cached(self) -> int:
        return sum(pool.num_cached for pool in self.pools.values())

    def at(self, now_ns: int) -> None:
        for pool in self.pools.values():
            pool.at(now_ns)

    def load_ns(self, tier: str, num_blocks: int) -> int:
        """How long loading so much is expected to take; 0 where nothing is known."""
        latency_ns, block_ns = self._speeds.get(tier, (0, 0))
        return latency_ns + num_blocks * block_ns

    def holding(self, key: bytes, besides: frozenset[str] = frozenset()) -> str | None:
        """The nearest tier that has it, of those that are not in `besides`."""
        found = (name for name, pool in self.pools.items() if pool.find(key) is not None and name not in besides)
        return next(found, None)

    def hold(self, tier: str, keys: Iterable[bytes]) -> list[int]:
        """The tier's blocks of these keys; they stay until they are released. None of a tier that is not ours."""
        pool = self.pools.get(tier)
        return [] if pool is None else pool.hold_keys(keys)

    def release(self, tier: str, blocks: list[int]) -> None:
        if blocks:
            self.pools[tier].release(blocks)

    def used(self, keys: Iterable[bytes]) -> None:
        """Now."""
        for pool in self.pools.values():
            pool.touch(keys)
