"""HTTP/1.1 over one connection: h11 for the protocol, an asyncio protocol for the bytes.

One process must read ten thousand small chunks a second. Client CPU a chunk, 300 streams on 2 vCPU: httpx 97
microseconds, aiohttp 57, h11 41 (25 with 1,000 streams), httptools 37. So h11: a dependency already, and fast enough.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol

import h11

from headway.bench.answer import shown

Opener = Callable[[Callable[[], "Connection"]], Awaitable[None]]
"""Makes a transport for the protocol that it is given. Tests put a scripted server here."""


class Listener(Protocol):
    """Who waits for an answer. After `on_end` or `on_lost` nothing comes any more."""

    def on_headers(self, status: int, headers: dict[str, str]) -> None: ...

    def on_body(self, part: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_lost(self, why: str) -> None:
        """The connection closed before the end of the answer, or what came is not HTTP."""
        ...


class Connection(asyncio.Protocol):
    """One exchange at a time; `is_idle` when it can take another."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._transport: asyncio.Transport | None = None
        self._listener: Listener | None = None
        self._cycles = False

    @property
    def is_idle(self) -> bool:
        transport = self._transport
        return self._listener is None and transport is not None and not transport.is_closing()

    def send(self, head: h11.Request, body: bytes, listener: Listener) -> None:
        assert self._transport is not None and self.is_idle  # noqa: S101, PT018 - the pool gives idle ones only
        self._listener = listener
        parts = (
            self._http.send(head),
            self._http.send(h11.Data(data=body)) if body else b"",
            self._http.send(h11.EndOfMessage()),
        )
        self._transport.write(b"".join(part for part in parts if part))

    def close(self) -> None:
        self._listener = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._advance(data)

    def eof_received(self) -> bool:
        self._advance(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(reason(exc) if exc else "the server closed the connection")

    def _advance(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
                if not self._dispatch(event):
                    return
        except h11.RemoteProtocolError as error:
            # h11 says this when the server closes in the middle of a body.
            why = "the server closed the connection" if not data else f"not HTTP/1.1: {error}"
            self._lost(why)
            self.close()

    def _dispatch(self, event: object) -> bool:
        """Whether there may be more to read."""
        listener = self._listener
        if isinstance(event, h11.Data):
            if listener is not None:
                listener.on_body(bytes(event.data))
        elif isinstance(event, h11.Response):
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
            if listener is not None:
                listener.on_headers(event.status_code, headers)
        elif isinstance(event, h11.EndOfMessage):
            self._ended()
        elif isinstance(event, h11.ConnectionClosed):
            self._lost("the server closed the connection")
            return False
        return self._listener is not None

    def _ended(self) -> None:
        listener, self._listener = self._listener, None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        elif self._transport is not None:
            self._transport.close()
        if listener is not None:
            listener.on_end()

    def _lost(self, why: str) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.on_lost(why)


def opener(host: str, port: int, tls: ssl.SSLContext | None) -> Opener:
    """Connects over TCP. Raises OSError."""

    async def connect(factory: Callable[[], Connection]) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(factory, host, port, ssl=tls)

    return connect


def reason(error: Exception) -> str:
    """The system's own words for it, as `Connection refused`; asyncio's name the call that failed."""
    has_words = isinstance(error, socket.gaierror | ssl.SSLError)  # and numbers that are not the system's
    number = error.errno if isinstance(error, OSError) and not has_words else None
    if number:
        return os.strerror(number)
    return shown(getattr(error, "strerror", None) or str(error)) or type(error).__name__


class Pool:
    """Idle connections, the last used first."""

    def __init__(self, opener: Opener, limit: int) -> None:
        self._opener = opener
        self._limit = limit
        self._idle: list[Connection] = []

    def idle(self) -> Connection | None:
        while self._idle:
            if (connection := self._idle.pop()).is_idle:
                return connection
        return None

    async def fresh(self) -> Connection:
        """Raises OSError when there is nobody."""
        made: list[Connection] = []

        def factory() -> Connection:
            made.append(Connection())
            return made[-1]

        await self._opener(factory)
        return made[-1]

    def give_back(self, connection: Connection) -> None:
        if connection.is_idle and len(self._idle) < self._limit:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
