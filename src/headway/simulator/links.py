"""What carries KV between memories: links, on which transfers queue, and tiers at the far end of them. Links fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(slots=True, eq=False)
class Sending:
    """One thing on a link, or in its queue."""

    took_ns: int
    on_arrival: OnArrival
    begins_ns: int
    over_ns: int
    """When all of it has left."""
    arrival: Event


class Link:
    """One direction of a link: transfers go one after another at the full bandwidth, and arrive a latency later."""

    def __init__(self, world: World, bytes_per_s: float, latency_s: float = 0.0) -> None:
        self._world = world
        self._ns_per_byte = 1e9 / bytes_per_s
        self._latency_ns = round(latency_s * 1e9)
        self._queue: list[Sending] = []
        """That have not arrived, in their order."""
        self._used_ns = 0
        """Until when it carried what is not in the queue any more."""
        self.sent_bytes = 0.0
        """Of transfers that arrived."""

    def send(self, size_bytes: float, on_arrival: OnArrival, head_start_ns: int = 0) -> Sending:
        """`head_start_ns`: so much of it was sent before, if the link had nothing else to do."""
        took_ns, begins_ns = round(size_bytes * self._ns_per_byte), self.begins_ns(head_start_ns)
        sending = Sending(took_ns, on_arrival, begins_ns, *self._placed(took_ns, begins_ns))
        self._queue.append(sending)
        return sending

    def begins_ns(self, head_start_ns: int = 0) -> int:
        """When what is sent now begins to go, or did."""
        return max(self._free_ns, self._world.now_ns - head_start_ns)

    def drop(self, sending: Sending) -> None:
        """It has broken off, if it has not arrived: what waits behind it goes sooner."""
        if sending not in self._queue:
            return
        number, now_ns = self._queue.index(sending), self._world.now_ns
        behind = self._queue[number + 1 :]
        del self._queue[number:]
        self._world.cancel(sending.arrival)
        if sending.begins_ns < now_ns:
            self._used_ns = max(self._used_ns, min(now_ns, sending.over_ns))
        for each in behind:
            if each.begins_ns > now_ns:
                self._world.cancel(each.arrival)
                each.begins_ns = max(now_ns, self._free_ns)
                each.over_ns, each.arrival = self._placed(each.took_ns, each.begins_ns)
            self._queue.append(each)

    @property
    def _free_ns(self) -> int:
        return max(self._used_ns, self._queue[-1].over_ns) if self._queue else self._used_ns

    def _placed(self, took_ns: int, begins_ns: int) -> tuple[int, Event]:
        """When it is over, and its arrival."""
        over_ns = max(self._world.now_ns, begins_ns + took_ns)
        return over_ns, self._world.at(over_ns + self._latency_ns, ARRIVED, self._arrived)

    def _arrived(self) -> None:
        first = self._queue.pop(0)
        self._used_ns = max(self._used_ns, first.over_ns)
        first.on_arrival(True)


class End:
    """Where transfers begin or end. When it fails, all that is under way there breaks off."""

    def __init__(self) -> None:
        self.lives = 0
        """How often it has failed: what was promised before is gone."""
        self.under_way: dict[Transfer, None] = {}
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
        """At once: nothing of it takes the place of another on a link."""
        broken = list(self.under_way)
        for transfer in reversed(broken):
            transfer.stop()
        for transfer in broken:
            transfer.end(False)

    def recover(self) -> None:
        """Of one of its faults."""
        self._faults -= 1


class Transfer:
    """Has arrived when every link that it goes over has carried it; ends once."""

    def __init__(self, ends: Sequence[End], size_bytes: float, on_arrival: OnArrival) -> None:
        self._ends = ends
        self._size_bytes = size_bytes
        self._on_arrival = on_arrival
        self._ways: list[tuple[Link, Sending]] = []
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
        if ok:
            for link, _ in self._ways:
                link.sent_bytes += self._size_bytes
        else:
            self.stop()
        self._on_arrival(ok)

    def stop(self) -> None:
        """Nothing more of it goes."""
        for link, sending in self._ways:
            link.drop(sending)

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
        self.ends = {tier.name: End() for tier in tiers}
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
        transfer = Transfer(ends, len(keys) * self._block_bytes, arrived)
        for name, links in ways.items():
            transfer.over(links[name])
