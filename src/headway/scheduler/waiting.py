"""Requests that have no slot: by priority, then arrival; bounded by number and by tokens; with deadlines."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from headway.scheduler.refusal import QueueFull
from headway.scheduler.sequence import QUEUED, Sequence, Status


class WaitingQueue:
    """Counts every queued sequence (waiting, parked, loading); only waiting ones can be popped.

    A sequence that left the queue otherwise stays in the heaps until its turn comes or until half of a heap is such.
    """

    def __init__(self, max_requests: int, max_tokens: int) -> None:
        self._max_requests = max_requests
        self._max_tokens = max_tokens
        self._heap: list[tuple[int, int, Sequence]] = []
        self._deadlines: list[tuple[int, int, Sequence]] = []
        self.num_requests = 0
        self.num_tokens = 0

    def check_room(self, num_tokens: int) -> None:
        """Raises QueueFull. An empty queue takes any request, however long."""
        if self.num_requests >= self._max_requests:
            raise QueueFull(f"{self.num_requests} requests are queued; the limit is {self._max_requests}")
        if self.num_requests and self.num_tokens + num_tokens > self._max_tokens:
            raise QueueFull(f"{self.num_tokens} tokens are queued; the limit is {self._max_tokens}")

    def enter(self, sequence: Sequence) -> None:
        """A new request, or one that was preempted: takes a place in the counts and in the order."""
        self.num_requests += 1
        self.num_tokens += sequence.num_tokens
        deadline = sequence.request.deadline_ns
        if deadline is not None and sequence.scheduled_ns is None:
            heapq.heappush(self._deadlines, (deadline, sequence.order, sequence))
        self.requeue(sequence)

    def requeue(self, sequence: Sequence) -> None:
        """Makes a queued sequence poppable."""
        sequence.status = Status.WAITING
        heapq.heappush(self._heap, (sequence.priority, sequence.order, sequence))

    def leave(self, sequence: Sequence) -> None:
        """Call while its `num_tokens` is what it was when it entered."""
        self.num_requests -= 1
        self.num_tokens -= sequence.num_tokens
        if len(self._heap) > 2 * self.num_requests + 64:
            self._heap = [entry for entry in self._heap if entry[2].status is Status.WAITING]
            heapq.heapify(self._heap)
        if len(self._deadlines) > 2 * self.num_requests + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[2].status in QUEUED]
            heapq.heapify(self._deadlines)

    def peek(self) -> Sequence | None:
        while self._heap:
            sequence = self._heap[0][2]
            if sequence.status is Status.WAITING:
                return sequence
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Sequence:
        """The sequence that `peek` returned."""
        return heapq.heappop(self._heap)[2]

    def expired(self, now_ns: int) -> Iterator[Sequence]:
        while (deadline := self.next_deadline_ns()) is not None and deadline <= now_ns:
            yield heapq.heappop(self._deadlines)[2]

    def next_deadline_ns(self) -> int | None:
        while self._deadlines:
            deadline, _, sequence = self._deadlines[0]
            if sequence.status in QUEUED and sequence.scheduled_ns is None:
                return deadline
            heapq.heappop(self._deadlines)
        return None
