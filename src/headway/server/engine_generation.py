"""What the HTTP side holds of a submitted sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from headway.scheduler.request import FinishReason
from headway.server.engine import Delta
from headway.server.engine_sequence import OpenSequence


class LinkedGeneration:
    """A `Generation`. Only its reader holds it, so that dropping it is the same as `cancel`."""

    def __init__(
        self,
        sequence: OpenSequence,
        cancel: Callable[[OpenSequence], None],
        finish: Callable[[OpenSequence, FinishReason], None],
    ) -> None:
        self._sequence = sequence
        self._cancel, self._finish = cancel, finish
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> LinkedGeneration:
        return self

    async def __anext__(self) -> Delta:
        delta = await self._sequence.inbox.take()
        if delta is None:
            raise StopAsyncIteration
        return delta

    def cancel(self) -> None:
        self._cancel(self._sequence)

    def finish(self, reason: FinishReason) -> None:
        self._finish(self._sequence, reason)

    async def aclose(self) -> None:
        self.cancel()

    def __del__(self) -> None:
        # The collector may run in any thread, and after the loop is closed.
        if not self._sequence.inbox.closed:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel, self._sequence)
