"""The virtual clock. Ties are broken by (time, priority, sequence number), so a run has one order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

Event = tuple[int, int, int, Callable[..., None], tuple[Any, ...]]


class World:
    """Integer nanoseconds from 0. Law: time never runs backwards."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[Event] = []
        self._asides: list[Event] = []
        """What happens beside all else: it does not keep the world going."""
        self._num_events = 0

    def at(self, time_ns: int, priority: int, action: Callable[..., None], *arguments: Any) -> Event:
        """At equal times the smaller priority goes first, then what was asked for first. ValueError for the past."""
        return self._push(self._heap, time_ns, priority, action, arguments)

    def cancel(self, event: Event) -> None:
        """It will not happen, nor keep the world going. Takes time in proportion to all that is to come."""
        if event in self._heap:
            self._heap.remove(event)
            heapify(self._heap)

    def aside(self, time_ns: int, priority: int, action: Callable[..., None], *arguments: Any) -> None:
        """The same, if anything else is to happen then or later."""
        self._push(self._asides, time_ns, priority, action, arguments)

    def _push(
        self, heap: list[Event], time_ns: int, priority: int, action: Callable[..., None], arguments: tuple[Any, ...]
    ) -> Event:
        if time_ns < self.now_ns:
            raise ValueError(f"an event at {time_ns} ns, where it is {self.now_ns} ns already")
        event = (time_ns, priority, self._num_events, action, arguments)
        heappush(heap, event)
        self._num_events += 1
        return event

    def run(self) -> None:
        """Until nothing is left to happen."""
        heap, asides = self._heap, self._asides
        while heap:
            source = asides if asides and asides[0] < heap[0] else heap
            self.now_ns, _, _, action, arguments = heappop(source)
            action(*arguments)

    def run_aside(self) -> bool:
        """What happens next aside, though nothing else is to happen. False if there is nothing."""
        if not self._asides:
            return False
        self.now_ns, _, _, action, arguments = heappop(self._asides)
        action(*arguments)
        return True
