"""KV on its way from replicas that prefill to replicas that decode.

A prompt's KV goes out layer by layer while the prompt is computed. Of n layers, sent in T = bytes / bandwidth, the last
one waits for the end of the prefill, which took D; so the transfer ends

    latency + max(T / n, T - D (n - 1) / n)     after the first token, if the link had nothing else to do.

Both ends of a hand-over, the sender's link and the receiver's, are busy with it; each carries one after another. The
scheduler that decodes asks for the blocks that it lacks as it asks for those of a slower tier; what was sent before it
asked waits there. Transfers fail when a link or a replica at one of their ends does: the scheduler computes then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.scheduler.contract import Load, Save
from headway.scheduler.facts import Fact, TierHolds, TierLost
from headway.simulator.links import ARRIVED, Carrier, End, Link, OnArrival, Transfer
from headway.simulator.world import World

TIER = "handover"
"""The name by which the scheduler knows what is handed over."""


@dataclass(frozen=True, slots=True)
class Port:
    """What a replica's links carry, each way, all of its chips together."""

    bytes_per_s: float
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a hand-over weighs: `bytes_of(n)` for n tokens of one sequence, in `layers` layers."""

    bytes_of: Callable[[int], float]
    layers: int


class PortEnd(End):
    """One replica's end of the links over which KV is handed over."""

    def __init__(self, world: World, port: Port) -> None:
        self.link = Link(world, port.bytes_per_s, port.latency_s)
        self.bytes_per_s = port.bytes_per_s
        super().__init__()


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """A request's KV, in blocks of these keys, computed by the replica at `sender` from `began_ns` to `ended_ns`."""

    keys: tuple[bytes, ...]
    sender: PortEnd
    life: int
    began_ns: int
    ended_ns: int

    @property
    def is_kept(self) -> bool:
        return self.sender.is_up and self.sender.lives == self.life

    def head_start_ns(self, now_ns: int, took_ns: float, layers: int) -> int:
        """How long before `now_ns` a link that carries it in `took_ns` can begin: the first layer is computed then, and
        all but the last one are through when the prompt is.
        """
        first_layer_ns = self.began_ns + (self.ended_ns - self.began_ns) / layers
        return now_ns - round(max(first_layer_ns, self.ended_ns - took_ns * (layers - 1) / layers))


class Inbox:
    """The Carrier of a replica that decodes: from the replicas that prefill, and from its own tiers."""

    def __init__(
        self, world: World, end: PortEnd, parcel: Parcel, block_size: int, tiers: Carrier, tell: Callable[[Fact], None]
    ) -> None:
        """`tell`: to the scheduler."""
        self.end = end
        self._world = world
        self._parcel = parcel
        self._block_size = block_size
        self._tiers = tiers
        self._tell = tell
        self._promises: dict[bytes, Promise] = {}
        """By key, the latest."""
        self.received_bytes = 0.0
        self.num_failed = 0

    def expect(self, promise: Promise) -> None:
        for key in promise.keys:
            self._promises[key] = promise
        self._tell(TierHolds(TIER, promise.keys))

    def forget(self, promise: Promise) -> None:
        """It was fetched, or is not wanted any more."""
        lost = tuple(key for key in promise.keys if self._promises.get(key) is promise)
        for key in lost:
            del self._promises[key]
        if lost:
            self._tell(TierLost(lost))

    def load(self, load: Load, on_arrival: OnArrival) -> int:
        if load.tier != TIER:
            return self._tiers.load(load, on_arrival)
        promise = self._promises.get(load.keys[-1])
        if promise is None or not promise.is_kept or not self.end.is_up:
            self.num_failed += 1
            self._world.at(self._world.now_ns, ARRIVED, on_arrival, False)
            return self._world.now_ns
        size_bytes = self._parcel.bytes_of(len(load.keys) * self._block_size)

        def arrived(ok: bool) -> None:
            self.received_bytes += size_bytes if ok else 0.0
            self.num_failed += not ok
            on_arrival(ok)
            if ok and load.keys[-1] == promise.keys[-1]:
                self.forget(promise)

        transfer = Transfer((promise.sender, self.end), size_bytes, arrived)
        began_ns = 0
        for end in (promise.sender, self.end):
            head_start_ns = promise.head_start_ns(
                self._world.now_ns, size_bytes / end.bytes_per_s * 1e9, self._parcel.layers
            )
            began_ns = max(began_ns, end.link.begins_ns(max(0, head_start_ns)))
            transfer.over(end.link, max(0, head_start_ns))
        return began_ns

    def save(self, save: Save, on_arrival: OnArrival) -> None:
        self._tiers.save(save, on_arrival)
