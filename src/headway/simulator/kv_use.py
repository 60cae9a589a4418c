"""KV by memory: how much lay where, what came back from there, what keeping it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields

from headway.scheduler.contract import DEVICE
from headway.scheduler.memory_use import MemoryUse
from headway.simulator.links import TierLinks
from headway.simulator.pool_use import HOUR_S
from headway.simulator.pools import Pool
from headway.simulator.price import added


@dataclass(frozen=True, slots=True)
class KVUse:
    """Of one kind of memory, of all replicas together. Means are over the whole run. On the device it is that of the
    first cache group: where some layers keep a window or a state only, of the others.
    """

    memory: str
    """`device`, or the tier's name."""
    capacity_bytes: float
    mean_used_bytes: float
    """Held by requests in progress, or by copies under way."""
    mean_idle_bytes: float
    """Kept for requests to come."""
    loaded_tokens: int
    """That came back to the device from here."""
    read_bytes: float
    written_bytes: float
    failed_transfers: int
    """Loads from here and copies to here that did not arrive."""
    cost_usd: float | None
    """Of all of the tier, from the first arrival to the last end. None: not known, or part of the replica's price."""


Source = tuple[Pool, TierLinks, tuple[MemoryUse, ...]]
"""Of one replica."""


def kv_uses(replicas: Iterable[Source], run_s: float, paid_s: float | None = None) -> tuple[KVUse, ...]:
    """The device first, then tiers in the order of the first replica that has them. `paid_s` None: all of the run."""
    found: dict[str, list[KVUse]] = defaultdict(list)
    for pool, links, memories in replicas:
        for memory in memories:
            found[memory.name].append(_use(pool, links, memory, run_s, run_s if paid_s is None else paid_s))
    return tuple(_total(name or "device", uses) for name, uses in found.items())


def _use(pool: Pool, links: TierLinks, memory: MemoryUse, run_s: float, paid_s: float) -> KVUse:
    size = pool.kv_block_bytes
    if memory.name == DEVICE and pool.device_block_bytes is not None:
        size = pool.device_block_bytes
    over = size / (run_s * 1e9) if run_s else 0.0
    tier = next((tier for tier in pool.tiers if tier.name == memory.name), None)
    per_hour = None if tier is None else tier.usd_per_hour
    return KVUse(
        memory.name,
        memory.num_blocks * size,
        memory.held_block_ns * over,
        memory.idle_block_ns * over,
        memory.blocks_loaded * pool.scheduler.block_size,
        0.0 if memory.name == DEVICE else links.reads[memory.name].sent_bytes,
        0.0 if memory.name == DEVICE else links.writes[memory.name].sent_bytes,
        links.num_failed[memory.name],
        None if per_hour is None else per_hour * paid_s / HOUR_S,
    )


def _total(name: str, uses: list[KVUse]) -> KVUse:
    sums = [added(getattr(use, field.name) for use in uses) for field in fields(KVUse)[1:]]
    return KVUse(name, *sums)  # type: ignore[arg-type]
