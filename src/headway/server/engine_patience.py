"""How long the link waits for an engine, and how long between engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    start_s: float = 1800.0
    """Loading a large model from a slow disk is not a hang."""
    stall_s: float = 60.0
    """Must be longer than the longest step."""
    exit_s: float = 5.0
    """What a healthy engine gets to end by itself."""
    backoff_s: float = 0.1
    max_backoff_s: float = 10.0
    failed_starts: int = 3
    """After so many in a row requests no longer wait for an engine; attempts go on."""


class Backoff:
    """Doubles from loss to loss, and starts over after an engine that lived longer than the longest wait."""

    def __init__(self, patience: Patience, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._clock_s = clock_s
        self._next_s = patience.backoff_s

    def next_s(self) -> float:
        wait_s = self._next_s
        self._next_s = min(self._patience.max_backoff_s, 2 * wait_s)
        return wait_s

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Around the life of an engine."""
        began_s = self._clock_s()
        yield
        if self._clock_s() - began_s > self._patience.max_backoff_s:
            self._next_s = self._patience.backoff_s
