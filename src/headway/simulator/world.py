"""The virtual clock. Ties are broken by (time, priority, sequence number), so a run has one order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Event = tuple[int, int, int, Callable[..., None], tuple[Any, ...]]


class World:
    """Integer nanoseconds from 0. Law: time never runs backwards."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[Event] = []
        self._num_events = 0

    def at(self, time_ns: int, priority: int, action: Callable[..., None], *arguments: Any) -> None:
        """At equal times the smaller priority goes first, then what was asked for first. ValueError for the past."""
        if time_ns < self.now_ns:
            raise ValueError(f"an event at {time_ns} ns, where it is {self.now_ns} ns already")
        heappush(self._heap, (time_ns, priority, self._num_events, action, arguments))
        self._num_events += 1

    def run(self, until_ns: int | None = None) -> None:
        """Until nothing is left to happen, or (exclusive) until a time."""
        heap = self._heap
        while heap and (until_ns is None or heap[0][0] < until_ns):
            self.now_ns, _, _, action, arguments = heappop(heap)
            action(*arguments)
