"""Failures of replicas and of the links between them: at given times, or at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from headway.simulator.replica import ARRIVAL
from headway.simulator.world import World
from headway.workload.call import WorkloadError
from headway.workload.streams import Streams

FAULT = ARRIVAL + 1
"""Priority of failures: after the steps that end and the requests that come at that moment."""
LEAST_S = 1.0
"""Of a mean time between failures: bounds the events of a run."""

REPLICA = "replica"
"""With its cache and its requests."""
HANDOVER = "handover"
"""Its end of the links over which KV is handed over."""
Thing = tuple[str, int]
"""REPLICA or a link of it, and the replica's number."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Raises WorkloadError for a time that is none."""

    what: str
    """REPLICA, or one of its links: HANDOVER, or the one to the tier of that name, which keeps what it holds."""
    at_s: float
    for_s: float | None = None
    """None: for good."""
    replica: int | None = None
    """None: every one that has such a link."""

    def __post_init__(self) -> None:
        if not 0 <= self.at_s < float("inf"):
            raise WorkloadError(f"a fault must have a time, not at={self.at_s:g}")
        if self.for_s is not None and not 0 < self.for_s < float("inf"):
            raise WorkloadError(f"a fault must take a positive time, not for={self.for_s:g}")


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Of each replica by itself: exponential times between a recovery and the next failure, and until it recovers."""

    mtbf_s: float
    mttr_s: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not LEAST_S <= self.mtbf_s < float("inf"):
            raise WorkloadError(f"mtbf must be at least {LEAST_S:g} s, not {self.mtbf_s:g}")
        if not 0 < self.mttr_s < float("inf"):
            raise WorkloadError(f"mttr must be a positive time, not {self.mttr_s:g}")


class Faults:
    """Calls `fail` and `recover`, in turn for each thing, however many faults overlap. No fault keeps a run going."""

    def __init__(
        self,
        world: World,
        num_replicas: int,
        fail: Callable[[str, int], None],
        recover: Callable[[str, int], None],
    ) -> None:
        self._world = world
        self._num_replicas = num_replicas
        self._fail = fail
        self._recover = recover
        self._down: Counter[Thing] = Counter()
        """How many faults hold it down."""
        self._for_good: set[Thing] = set()

    def plan(self, faults: Sequence[Fault], links: Sequence[Collection[str]]) -> None:
        """`links` of each replica. Raises WorkloadError for a replica or a link that there is not."""
        for fault in faults:
            for thing in _things(fault, links):
                self._world.aside(_ns(fault.at_s), FAULT, self._begin, thing)
                if fault.for_s is None:
                    self._world.aside(_ns(fault.at_s), FAULT, self._for_good.add, thing)
                else:
                    self._world.aside(_ns(fault.at_s + fault.for_s), FAULT, self._end, thing)

    def is_for_good(self, replica: int) -> bool:
        """It failed, and will not come back."""
        return (REPLICA, replica) in self._for_good

    def draw(self, faults: RandomFaults) -> None:
        """Each replica has a stream of its own."""
        for replica in range(self._num_replicas):
            stream = Streams(faults.seed).of(f"faults of replica {replica}")
            self._next((REPLICA, replica), faults, stream.exponential)

    def _next(self, thing: Thing, faults: RandomFaults, exponential: Callable[[float], float]) -> None:
        if thing in self._for_good:
            return
        up_ns, down_ns = _ns(exponential(faults.mtbf_s)), _ns(exponential(faults.mttr_s))
        begin_ns = self._world.now_ns + up_ns
        end_ns = begin_ns + down_ns
        self._world.aside(begin_ns, FAULT, self._begin, thing)
        self._world.aside(end_ns, FAULT, self._end, thing)
        self._world.aside(end_ns, FAULT, self._next, thing, faults, exponential)

    def _begin(self, thing: Thing) -> None:
        self._down[thing] += 1
        if self._down[thing] == 1:
            self._fail(*thing)

    def _end(self, thing: Thing) -> None:
        self._down[thing] -= 1
        if not self._down[thing]:
            self._recover(*thing)


def _things(fault: Fault, links: Sequence[Collection[str]]) -> list[Thing]:
    """What it holds down."""
    what, replica = fault.what, fault.replica
    if replica is not None and not 0 <= replica < len(links):
        raise WorkloadError(f"fault of replica {replica}: there are 0 to {len(links) - 1}")
    asked = range(len(links)) if replica is None else (replica,)
    things = [(what, each) for each in asked if what == REPLICA or what in links[each]]
    if not things:
        who = "no replica has" if replica is None else f"replica {replica} does not have"
        there = ", ".join(sorted({name for each in asked for name in links[each]})) or "none"
        raise WorkloadError(f"fault of link={what}: {who} such a link; links are: {there}")
    return things


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
