"""One HTTP request's sequences: submitted together, read together, freed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress

from headway.scheduler.receipt import Receipt
from headway.server.choices import Choice, Piece
from headway.server.engine import EngineClient, EngineFailed, Expired, Generation, Refusal
from headway.server.metrics import Metrics, ObservedSequence

QUEUED_PIECES = 64
"""For each choice; a slow client then slows the reading of its own sequences only."""


class Ping:
    """There was nothing to say for a while."""


_Queue = asyncio.Queue[Piece | Exception | None]


class Job:
    def __init__(self, choices: Sequence[Choice], metrics: Metrics, ping_s: float) -> None:
        self._choices = choices
        self._observed = [metrics.sequence(choice.submit.num_prompt_tokens) for choice in choices]
        self._ping_s = ping_s
        self._queue: _Queue = asyncio.Queue(QUEUED_PIECES * len(choices))

    def fail(self, error: Exception) -> None:
        """`pieces` raises this after what it has already; not if its reader is so slow that there is no room for it."""
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait(error)

    @property
    def receipts(self) -> list[Receipt]:
        """Of every choice, once `pieces` is exhausted."""
        return [choice.receipt for choice in self._choices if choice.receipt is not None]

    async def pieces(self, engine: EngineClient) -> AsyncGenerator[Piece | Ping]:
        """Submits and reads. Whatever ends the iteration, nothing goes on in the engine after it.

        Raises EngineError, or what `fail` was given.
        """
        generations: list[Generation] = []
        readers: list[asyncio.Task[None]] = []
        queue = self._queue
        try:
            generations += self._submit(engine)
            for choice, generation, observed in zip(self._choices, generations, self._observed, strict=True):
                readers.append(asyncio.create_task(_read(choice, generation, observed, queue)))
            running = len(readers)
            while running:
                item = await _next(queue, self._ping_s)
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    running -= 1
                else:
                    yield item
        finally:
            for generation in generations:
                generation.cancel()
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            for observed in self._observed:
                observed.ended("abort")

    def _submit(self, engine: EngineClient) -> list[Generation]:
        """All or none."""
        generations: list[Generation] = []
        try:
            for choice in self._choices:
                generations.append(engine.generate(choice.submit))
        except BaseException:
            for generation in generations:
                generation.cancel()
            for observed in self._observed:
                observed.refused()
            raise
        return generations


async def _next(queue: _Queue, ping_s: float) -> Piece | Exception | Ping | None:
    if not queue.empty():
        return queue.get_nowait()
    try:
        async with asyncio.timeout(ping_s):
            return await queue.get()
    except TimeoutError:
        return Ping()


async def _read(choice: Choice, generation: Generation, observed: ObservedSequence, queue: _Queue) -> None:
    """Puts pieces, then None; or an exception."""
    try:
        async for delta in generation:
            if delta.token_ids:
                observed.drew(len(delta.token_ids))
            was_running = choice.stopped_by is None
            piece = choice.feed(delta)
            if was_running and isinstance(choice.stopped_by, str) and delta.ended is None:
                generation.finish("stop")
            if piece is not None:
                if piece.finish_reason == "stop" or piece.finish_reason == "length":
                    observed.ended(piece.finish_reason)
                elif piece.finish_reason is not None:
                    raise EngineFailed(f"{choice.submit.id} ended as {piece.finish_reason}")
                await queue.put(piece)
        if choice.receipt is None:
            raise EngineFailed(f"{choice.submit.id} came to no end")
        await queue.put(None)
    except (Refusal, Expired) as error:
        observed.refused()
        await queue.put(error)
    except Exception as error:
        observed.ended("error")
        await queue.put(error)


async def collect(pieces: AsyncGenerator[Piece | Ping], grow: Callable[[int], None]) -> dict[int, list[Piece]]:
    """All pieces, by choice. Raises EngineError, and what `grow` raises when they are too many bytes."""
    by_choice: dict[int, list[Piece]] = {}
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Piece):
                grow(piece.held_bytes)
                by_choice.setdefault(piece.index, []).append(piece)
    return by_choice
