"""Failures of replicas and of the links between them: at given times, or at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.simulator.replica import ARRIVAL
from headway.simulator.world import World
from headway.workload.call import WorkloadError
from headway.workload.streams import Streams

FAULT = ARRIVAL + 1
"""Priority of failures: after the steps that end and the requests that come at that moment."""
LEAST_S = 1.0
"""Of a mean time between failures: bounds the events of a run."""

What = Literal["replica", "handover"]
"""A replica, with its cache and its requests; or its end of the links over which KV is handed over."""
Thing = tuple[What, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """Raises WorkloadError for a time that is none."""

    what: What
    at_s: float
    for_s: float | None = None
    """None: for good."""
    replica: int | None = None
    """None: every one."""

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
        fail: Callable[[What, int], None],
        recover: Callable[[What, int], None],
    ) -> None:
        self._world = world
        self._num_replicas = num_replicas
        self._fail = fail
        self._recover = recover
        self._down: Counter[Thing] = Counter()
        """How many faults hold it down."""
        self._for_good: set[Thing] = set()

    def plan(self, faults: Sequence[Fault]) -> None:
        """Raises WorkloadError for a replica that there is not."""
        for fault in faults:
            if fault.replica is not None and not 0 <= fault.replica < self._num_replicas:
                raise WorkloadError(f"fault of replica {fault.replica}: there are 0 to {self._num_replicas - 1}")
            replicas = range(self._num_replicas) if fault.replica is None else (fault.replica,)
            for replica in replicas:
                thing = (fault.what, replica)
                self._world.aside(_ns(fault.at_s), FAULT, self._begin, thing)
                if fault.for_s is None:
                    self._world.aside(_ns(fault.at_s), FAULT, self._for_good.add, thing)
                else:
                    self._world.aside(_ns(fault.at_s + fault.for_s), FAULT, self._end, thing)

    def is_for_good(self, replica: int) -> bool:
        """It failed, and will not come back."""
        return ("replica", replica) in self._for_good

    def draw(self, faults: RandomFaults) -> None:
        """Each replica has a stream of its own."""
        for replica in range(self._num_replicas):
            stream = Streams(faults.seed).of(f"faults of replica {replica}")
            self._next(("replica", replica), faults, stream.exponential)

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


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
