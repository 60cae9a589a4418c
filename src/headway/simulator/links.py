"""What carries KV between memories: links, on which transfers queue, and tiers at the far end of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headway.scheduler.contract import DEVICE, Load, Save
from headway.simulator.tier_memory import TierMemory
from headway.simulator.world import World

ARRIVED = 1 << 19
"""Priority of transfers that arrive: at equal times after steps that end, before requests that come."""

OnArrival = Callable[[bool], None]
"""Told whether what was sent is there."""


class Carrier(Protocol):
    """The part of a body that moves KV: it answers each transfer once."""

    def load(self, load: Load, on_arrival: OnArrival) -> None: ...

    def save(self, save: Save, on_arrival: OnArrival) -> None: ...


class Link:
    """One direction of a link: transfers go one after another at the full bandwidth, and arrive a latency later."""

    def __init__(self, world: World, bytes_per_s: float, latency_s: float = 0.0) -> None:
        self._world = world
        self._ns_per_byte = 1e9 / bytes_per_s
        self._latency_ns = round(latency_s * 1e9)
        self._free_ns = 0
        self.sent_bytes = 0.0

    def send(self, size_bytes: float, on_arrival: OnArrival, head_start_ns: int = 0) -> int:
        """When it arrives. `head_start_ns`: so much of it was sent before, if the link had nothing else to do."""
        now_ns = self._world.now_ns
        began_ns = max(self._free_ns, now_ns - head_start_ns)
        self._free_ns = max(now_ns, began_ns + round(size_bytes * self._ns_per_byte))
        self.sent_bytes += size_bytes
        arrival_ns = self._free_ns + self._latency_ns
        self._world.at(arrival_ns, ARRIVED, on_arrival, True)
        return arrival_ns


class TierLinks:
    """Between a replica's device and its tiers. A tier is read, and written, over links of its own."""

    def __init__(self, world: World, tiers: tuple[TierMemory, ...], block_bytes: float) -> None:
        self._block_bytes = block_bytes
        self.reads = {tier.name: Link(world, tier.bytes_per_s, tier.latency_s) for tier in tiers}
        self.writes = {tier.name: Link(world, tier.bytes_per_s, tier.latency_s) for tier in tiers}

    def load(self, load: Load, on_arrival: OnArrival) -> None:
        self.reads[load.tier].send(len(load.keys) * self._block_bytes, on_arrival)

    def save(self, save: Save, on_arrival: OnArrival) -> None:
        """From a tier, it has to be read there first: whichever of the two links takes longer."""
        size_bytes = len(save.keys) * self._block_bytes
        if save.source == DEVICE:
            self.writes[save.tier].send(size_bytes, on_arrival)
            return
        both = _Both(on_arrival)
        self.reads[save.source].send(size_bytes, both)
        self.writes[save.tier].send(size_bytes, both)


class _Both:
    """Calls on when it has been called twice."""

    def __init__(self, on_arrival: OnArrival) -> None:
        self._on_arrival = on_arrival
        self._missing = 2

    def __call__(self, ok: bool) -> None:
        self._missing -= 1
        if not self._missing:
            self._on_arrival(ok)
