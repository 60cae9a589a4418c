"""How much KV lay in which memory, for how long, and how much came back from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.scheduler.block_pool import BlockPool
from headway.scheduler.contract import DEVICE
from headway.scheduler.kv_cache import KVCache
from headway.scheduler.transfers import Transfers


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Of one memory, since the start."""

    name: str
    """DEVICE, or the tier's."""
    num_blocks: int
    held_block_ns: int
    """Blocks that were in use, times the nanoseconds for which they were."""
    idle_block_ns: int
    """The same of blocks that were kept for later."""
    blocks_loaded: int
    """That came from here back to the device."""

    def plus(self, other: MemoryUse) -> MemoryUse:
        """Of one memory, before and after it was emptied."""
        return replace(
            self,
            held_block_ns=self.held_block_ns + other.held_block_ns,
            idle_block_ns=self.idle_block_ns + other.idle_block_ns,
            blocks_loaded=self.blocks_loaded + other.blocks_loaded,
        )


def memory_use(cache: KVCache, transfers: Transfers) -> tuple[MemoryUse, ...]:
    """The device's first cache group, then the tiers, nearest first."""
    loaded = transfers.blocks_loaded
    pools = {DEVICE: cache.pools[0]} | transfers.tiers.pools
    return tuple(_use(name, pool, loaded[name]) for name, pool in pools.items())


def _use(name: str, pool: BlockPool, loaded: int) -> MemoryUse:
    return MemoryUse(name, pool.num_blocks, pool.held_block_ns, pool.idle_block_ns, loaded)
