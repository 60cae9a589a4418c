"""Replicas as the gateway sees them, and groups of those that take the same work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.scheduler.request import Request
from headway.simulator.handover import Inbox, PortEnd
from headway.simulator.pools import Role
from headway.simulator.queue_limits import QueueLimits
from headway.simulator.replica import Replica
from headway.simulator.router import Load, Router

if TYPE_CHECKING:
    from headway.simulator.gateway import Job


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """`end`, and the `inbox` of a replica that decodes: where KV is handed over."""

    replica: Replica
    load: Load
    role: Role
    end: PortEnd | None = None
    inbox: Inbox | None = None
    queue: QueueLimits = field(default_factory=QueueLimits)


class Group:
    """A router chooses among those that are up; while none is, jobs wait in the order in which they came."""

    def __init__(self, router: Router, backends: Sequence[Backend]) -> None:
        self.waiting: deque[Job] = deque()
        self._router = router
        self._backends = {backend.load.replica: backend for backend in backends}
        self._up = [backend.load for backend in backends]

    def choose(self, request: Request) -> Load | None:
        return self._router.choose(request, self._up) if self._up else None

    @property
    def replicas(self) -> Collection[int]:
        return self._backends

    @property
    def is_up(self) -> bool:
        return bool(self._up)

    def has_room(self, spill: float) -> bool:
        """Fewer requests than `spill` times the rows of those that are up."""
        rows = sum(self._backends[load.replica].replica.config.max_running for load in self._up)
        return sum(load.requests for load in self._up) < spill * rows

    def changed(self, load: Load) -> None:
        """It is up or down now. Another group's is not its business."""
        if load.replica not in self._backends:
            return
        self._up = [backend.load for backend in self._backends.values() if backend.load.is_up]
        if not load.is_up:
            self._router.lost(load)


@dataclass(frozen=True, slots=True)
class Site:
    """The replicas of one region: those that take new requests, and those that go on with them."""

    entries: Group
    decoders: Group

    @property
    def groups(self) -> tuple[Group, Group]:
        return self.entries, self.decoders

    @property
    def needed(self) -> list[Group]:
        """Without one of these, a call that comes is not answered."""
        return [self.entries, *([self.decoders] if self.decoders.replicas else [])]

    @property
    def is_up(self) -> bool:
        return all(group.is_up for group in self.needed)

    def has_room(self, spill: float) -> bool:
        return self.is_up and self.entries.has_room(spill)

    def will_be_up(self, is_lost: Callable[[int], bool]) -> bool:
        """`is_lost`: whether a replica will not come back."""
        return all(not all(map(is_lost, group.replicas)) for group in self.needed)
