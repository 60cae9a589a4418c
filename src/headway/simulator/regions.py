"""Where clients and replicas are, how far apart, and to which region a call goes."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from headway.workload.call import WorkloadError
from headway.workload.streams import Streams

Pair = frozenset[str]


@dataclass(frozen=True, slots=True)
class Regions:
    """`shares` of sessions by their client's region; seconds there and back between two regions, 0 within one if it is
    not said. A call goes to the nearest region with room: fewer requests than `spill` times the rows of its replicas.
    """

    shares: tuple[tuple[str, float], ...]
    round_trips_s: Mapping[Pair, float] = field(default_factory=dict)
    spill: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.shares or any(not 0 < share < float("inf") for _, share in self.shares):
            raise WorkloadError("clients: each region needs a positive share of sessions")
        if not self.spill > 0:
            raise WorkloadError(f"spill must be positive, not {self.spill:g}")

    def way_ns(self, a: str, b: str) -> int:
        """Raises WorkloadError for two regions whose distance is not said."""
        pair = frozenset((a, b))
        if a != b and pair not in self.round_trips_s:
            raise WorkloadError(f"how far is {a} from {b}? --way {a}-{b}=SECONDS, there and back")
        return round(self.round_trips_s.get(pair, 0.0) / 2 * 1e9)

    def draws(self) -> Callable[[], str]:
        """The next client's region, from a stream of its own."""
        bounds = list(accumulate(share for _, share in self.shares))
        random = Streams(self.seed).of("regions of clients").random
        names = [name for name, _ in self.shares]
        return lambda: names[min(bisect(bounds, random() * bounds[-1]), len(names) - 1)]


class Nearest:
    """By a client's region: the numbers of the replicas' regions, nearest first, and the way to each."""

    def __init__(self, regions: Regions, places: Sequence[str]) -> None:
        """Raises WorkloadError for distances that are not said."""
        self._ways_ns = {
            name: sorted((regions.way_ns(name, place), number) for number, place in enumerate(places))
            for name, _ in regions.shares
        }

    def choose(self, client: str, *wishes: Sequence[bool]) -> tuple[int, int]:
        """Number and way, of the nearest of which the first wish holds; if it holds of none, then the next one."""
        ways = self._ways_ns[client]
        for holds in wishes:
            for way_ns, number in ways:
                if holds[number]:
                    return number, way_ns
        way_ns, number = ways[0]
        return number, way_ns
