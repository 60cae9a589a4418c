"""Time that passes when a test says so: deadlines need neither waiting for nor a machine that keeps up."""

from __future__ import annotations

import asyncio


class PassingTime:
    """Puts the clock of an event loop forward, beside the time that really passes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._real_s, self._ahead_s = loop, loop.time, 0.0
        loop.time = lambda: self._real_s() + self._ahead_s  # type: ignore[method-assign]

    def jump(self, seconds: float) -> None:
        """From the thread of the loop. What is due by then is done in the loop's next turn."""
        self._ahead_s += seconds

    def jump_from_outside(self, seconds: float) -> None:
        self._loop.call_soon_threadsafe(self.jump, seconds)
