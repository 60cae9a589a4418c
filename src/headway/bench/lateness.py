"""Whether the load generator itself kept up. A run that it distorted is no result."""

from __future__ import annotations

import asyncio

PROBE_S = 0.02
MAX_SAMPLES = 200_000


class LagProbe:
    """Wakes up at fixed times and notes how late it is: as late as any chunk may have been read."""

    def __init__(self) -> None:
        self.lags_s: list[float] = []
        self._timer: asyncio.TimerHandle | None = None
        self._every = 1
        self._skipped = 0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + PROBE_S
        self._timer = loop.call_at(self._due_s, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._note(max(0.0, now_s - self._due_s))
        # Ticks that a long stall swallowed are not made up for.
        self._due_s = max(self._due_s + PROBE_S, now_s)
        self._timer = loop.call_at(self._due_s, self._look)

    def _note(self, lag_s: float) -> None:
        """Long runs keep every second sample, then every fourth, and so on."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.lags_s.append(lag_s)
        if len(self.lags_s) >= MAX_SAMPLES:
            del self.lags_s[::2]
            self._every *= 2
