"""Requests being answered: how many may be, and their end when the server stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headway.server.errors import overloaded
from headway.server.job import Job


class Inflight:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._jobs: set[Job] = set()
        self.draining = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Raises ApiError (503) when there are too many, or when the server is about to stop."""
        if self.draining:
            raise overloaded("the server is stopping", retry_after_s=5)
        if self._count >= self._limit:
            raise overloaded(f"{self._limit} requests are being answered already")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

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
