"""What carries KV between memories: links, on which transfers queue, and tiers at the far end of them. Links fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from headway.scheduler.contract import DEVICE, Load, Save
from headway.simulator.tier_memory import TierMemory
from headway.simulator.world import Event, World

ARRIVED = 1 << 19
"""Priority of transfers that arrive: at equal times after steps that end, before requests that come."""

OnArrival = Callable[[bool], None]
"""Told whether what was sent is there."""


class Carrier(Protocol):
    """The part of a body that moves KV: it answers each transfer once."""

    def load(self, load: Load, on_arrival: OnArrival) -> int:
        """When it began: before it was asked for, where it was on its way already."""

    def save(self, save: Save, on_arrival: OnArrival) -> None: ...


class Link:
    """One direction of a link: transfers go one after another at the full bandwidth, and arrive a latency later."""

    def __init__(self, world: World, bytes_per_s: float, latency_s: float = 0.0) -> None:
        self._world = world
        self._ns_per_byte = 1e9 / bytes_per_s
        self._latency_ns = round(latency_s * 1e9)
        self._free_ns = 0
        self.sent_bytes = 0.0
        """Of transfers that arrived."""

    def send(self, size_bytes: float, on_arrival: OnArrival, head_start_ns: int = 0) -> Event:
        """Its arrival. `head_start_ns`: so much of it was sent before, if the link had nothing else to do."""
        began_ns = self.begins_ns(head_start_ns)
        self._free_ns = max(self._world.now_ns, began_ns + round(size_bytes * self._ns_per_byte))
        return self._world.at(self._free_ns + self._latency_ns, ARRIVED, on_arrival, True)

    def begins_ns(self, head_start_ns: int = 0) -> int:
        """When what is sent now begins to go, or did."""
        return max(self._free_ns, self._world.now_ns - head_start_ns)

    def clear(self) -> None:
        """What was under way is not any more."""
        self._free_ns = self._world.now_ns


class End:
    """Where transfers begin or end. When it fails, all that is under way there breaks off."""

    def __init__(self, *links: Link) -> None:
        self.lives = 0
        """How often it has failed: what was promised before is gone."""
        self.under_way: dict[Transfer, None] = {}
        self._links = links
        self._faults = 0
        """That hold it down."""

    @property
    def is_up(self) -> bool:
        return not self._faults

    def fail(self) -> None:
        self._faults += 1
        self.lives += 1
        self.break_off()

    def break_off(self) -> None:
        for transfer in list(self.under_way):
            transfer.end(False)
        for link in self._links:
            link.clear()

    def recover(self) -> None:
        """Of one of its faults."""
        self._faults -= 1


class Transfer:
    """Has arrived when every link that it goes over has carried it; ends once."""

    def __init__(self, world: World, ends: Sequence[End], size_bytes: float, on_arrival: OnArrival) -> None:
        self._world = world
        self._ends = ends
        self._size_bytes = size_bytes
        self._on_arrival = on_arrival
        self._ways: list[tuple[Link, Event]] = []
        self._missing = 0
        for end in ends:
            end.under_way[self] = None

    def over(self, link: Link, head_start_ns: int = 0) -> None:
        self._missing += 1
        self._ways.append((link, link.send(self._size_bytes, self._carried, head_start_ns)))

    def end(self, ok: bool) -> None:
        if self not in self._ends[0].under_way:
            return
        for end in self._ends:
            del end.under_way[self]
        for link, arrival in self._ways:
            if ok:
                link.sent_bytes += self._size_bytes
            else:
                self._world.cancel(arrival)
        self._on_arrival(ok)

    def _carried(self, ok: bool) -> None:
        self._missing -= 1
        if not self._missing:
            self.end(ok)


class TierLinks:
    """Between a replica's device and its tiers. A tier is read, and written, over links of its own, which fail
    together. What it holds stays there.
    """

    def __init__(self, world: World, tiers: tuple[TierMemory, ...], block_bytes: float) -> None:
        self._world = world
        self._block_bytes = block_bytes
        self.reads = {tier.name: Link(world, tier.bytes_per_s, tier.latency_s) for tier in tiers}
        self.writes = {tier.name: Link(world, tier.bytes_per_s, tier.latency_s) for tier in tiers}
        self.ends = {tier.name: End(self.reads[tier.name], self.writes[tier.name]) for tier in tiers}
        self.num_failed: Counter[str] = Counter()
        """Loads from a tier and copies to it that did not arrive."""

    def load(self, load: Load, on_arrival: OnArrival) -> int:
        self._send(load.tier, load.keys, {load.tier: self.reads}, on_arrival)
        return self._world.now_ns

    def save(self, save: Save, on_arrival: OnArrival) -> None:
        """From a tier, it has to be read there first: whichever of the two links takes longer."""
        read = {} if save.source == DEVICE else {save.source: self.reads}
        self._send(save.tier, save.keys, {**read, save.tier: self.writes}, on_arrival)

    def break_off(self) -> None:
        """All that is under way."""
        for end in self.ends.values():
            end.break_off()

    def _send(self, tier: str, keys: Sequence[bytes], ways: dict[str, dict[str, Link]], on_arrival: OnArrival) -> None:
        """`ways`: by tier, the links that go there or come from there."""

        def arrived(ok: bool) -> None:
            self.num_failed[tier] += not ok
            on_arrival(ok)

        ends = [self.ends[name] for name in ways]
        if not all(end.is_up for end in ends):
            self._world.at(self._world.now_ns, ARRIVED, arrived, False)
            return
        transfer = Transfer(self._world, ends, len(keys) * self._block_bytes, arrived)
        for name, links in ways.items():
            transfer.over(links[name])
