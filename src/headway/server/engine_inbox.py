"""What a sequence drew and its reader has not taken yet."""

from __future__ import annotations

import asyncio

from headway.engine.messages import Ended
from headway.scheduler.contract import RowLogprobs, TokenLogprobs
from headway.server.engine import Delta, EngineError


class Inbox:
    """Whatever is unread is one delta, so a reader that stalls costs no more than the sequence's own tokens."""

    def __init__(self) -> None:
        self._token_ids: list[int] = []
        self._drawn: list[TokenLogprobs] = []
        self._prompt: list[TokenLogprobs] = []
        self._last: Ended | EngineError | None = None
        self._closed = False
        self._read = False
        self._news = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._closed

    def put(self, token_ids: list[int], logprobs: RowLogprobs | None) -> None:
        self._token_ids += token_ids
        if logprobs is not None:
            self._drawn += logprobs.drawn
            self._prompt += logprobs.prompt
        self._news.set()

    def close(self, last: Ended | EngineError | None) -> None:
        """Nothing comes after this. None drops what is unread: nobody wants it."""
        if self._closed:
            return
        self._closed = True
        self._last = last
        self._read = last is None
        self._news.set()

    async def take(self) -> Delta | None:
        """All that came since the last call, waiting for it if need be; None after the end. Raises its error once."""
        await self._news.wait()
        if self._read:
            return None
        unread = bool(self._token_ids or self._prompt)
        if isinstance(self._last, EngineError) and not unread:
            self._read = True
            raise self._last
        ended = self._last if isinstance(self._last, Ended) else None
        self._read = ended is not None
        if not self._closed:
            self._news.clear()
        delta = Delta(self._token_ids, self._logprobs(), ended)
        self._token_ids, self._drawn, self._prompt = [], [], []
        return delta

    def _logprobs(self) -> RowLogprobs | None:
        if self._drawn or self._prompt:
            return RowLogprobs(tuple(self._drawn), tuple(self._prompt))
        return None
