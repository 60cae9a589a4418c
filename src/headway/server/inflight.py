"""Requests being answered: how many may be, and their end when the server stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headway.server.errors import ApiError, overloaded
from headway.server.job import Job


class Held:
    """What one request keeps in memory."""

    def __init__(self, inflight: Inflight) -> None:
        self._inflight = inflight
        self.bytes = 0

    def grow(self, size: int) -> None:
        """Raises ApiError: 400 when this request alone would hold too much, 503 when all together would."""
        limit = self._inflight.held_limit
        if self.bytes + size > limit:
            why = f"the request alone needs {self.bytes + size} bytes of memory, more than the limit of {limit}"
            raise ApiError(400, why, code="request_too_large", headers={"connection": "close"})
        if self._inflight.held_bytes + size > limit:
            raise overloaded("the requests being answered hold too much memory", close=True)
        self._inflight.held_bytes += size
        self.bytes += size


class Inflight:
    def __init__(self, limit: int, held_limit: int) -> None:
        self._limit = limit
        self.count = 0
        self.held_limit = held_limit
        self.held_bytes = 0
        self._jobs: set[Job] = set()
        self.draining = False

    @contextmanager
    def request(self) -> Iterator[Held]:
        """Raises ApiError (503) when there are too many, or when the server is about to stop."""
        if self.draining:
            raise overloaded("the server is stopping", retry_after_s=5)
        if self.count >= self._limit:
            raise overloaded(f"{self._limit} requests are being answered already")
        self.count += 1
        held = Held(self)
        try:
            yield held
        finally:
            self.count -= 1
            self.held_bytes -= held.bytes

    @property
    def jobs(self) -> int:
        """Requests whose sequences are in the engine."""
        return len(self._jobs)

    @contextmanager
    def job(self, job: Job) -> Iterator[None]:
        self._jobs.add(job)
        try:
            yield
        finally:
            self._jobs.discard(job)

    def drain(self) -> None:
        """Take nothing new."""
        self.draining = True

    def cut(self) -> None:
        """The grace time is over: whoever still waits gets an error."""
        for job in self._jobs:
            job.fail(overloaded("the server is stopping", retry_after_s=5))
