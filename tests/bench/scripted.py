"""A server in memory: what it answers to each request, and when, is written down beforehand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import h11

from headway.bench.connection import Connection

END = "end"
RESET = "reset"
"""Steps of a script: bytes to send, seconds to wait, END of the body, RESET of the connection."""
Step = bytes | float | str
Script = Iterable[Step]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(fields: Any) -> bytes:
    return b"data: " + (fields if isinstance(fields, bytes) else json.dumps(fields).encode()) + b"\n\n"


def text(piece: str, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    delta = {"content": piece} if piece else {}
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}


def usage(prompt: int, output: int, **fields: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output, **fields}}


def body(*events: Any) -> Script:
    """A stream of these events at once, with its head and its end."""
    return [HEAD, *(http_chunk(event(fields)) for fields in events), http_chunk(event(b"[DONE]")), END]


def whole(status: int, data: bytes, *headers: str) -> Script:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", *headers]
    return ["\r\n".join([*lines, "", ""]).encode() + data]


def answer(ttft_s: float, gaps_s: Iterable[float], *, prompt: int = 10, told: int | None = None) -> Script:
    """One token after `ttft_s`, one after each gap; the last carries the finish reason."""
    gaps = list(gaps_s)
    words = [f" w{i}" for i in range(len(gaps) + 1)]
    steps: list[Step] = [HEAD, http_chunk(event(text("", role="assistant"))), ttft_s]
    for i, word in enumerate(words):
        steps.append(http_chunk(event(text(word, "length" if i == len(gaps) else None))))
        if i < len(gaps):
            steps.append(gaps[i])
    count = len(words) if told is None else told
    return [*steps, http_chunk(event(usage(prompt, count)) + event(b"[DONE]")), END]


class Transport(asyncio.Transport):
    def __init__(self, server: Server, connection: Connection) -> None:
        super().__init__()
        self._server = server
        self._connection = connection
        self._http = h11.Connection(h11.SERVER)
        self._closing = False
        self._playing: asyncio.Task[None] | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._http.receive_data(bytes(data))
        received = bytearray()
        target = b""
        while (got := self._http.next_event()) is not h11.NEED_DATA:
            if isinstance(got, h11.Request):
                target = got.target
            elif isinstance(got, h11.Data):
                received += got.data
            elif isinstance(got, h11.EndOfMessage):
                self._playing = asyncio.ensure_future(self._play(target.decode(), bytes(received)))
                return

    async def _play(self, target: str, received: bytes) -> None:
        self._server.open += 1
        self._server.most_open = max(self._server.most_open, self._server.open)
        try:
            for step in self._server.script(target, received):
                if isinstance(step, float):
                    await asyncio.sleep(step)
                elif step is RESET:
                    self._lose(ConnectionResetError("reset by peer"))
                    return
                elif step is END:
                    self._send(b"0\r\n\r\n")
                else:
                    assert isinstance(step, bytes)
                    self._send(step)
        finally:
            self._server.open -= 1
        self._http = h11.Connection(h11.SERVER)

    def _send(self, data: bytes) -> None:
        if not self._closing:
            self._connection.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._connection.connection_lost(error)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


@dataclass
class Server:
    """`scripts`: for each request in turn; a function gets its number. `connect_s`: what a connection takes."""

    scripts: list[Script] | Callable[[int], Script]
    connect_s: float = 0.0
    refuses: bool = False
    open: int = 0
    most_open: int = 0
    connections: int = 0
    requests: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """When each came, and its body."""

    def script(self, target: str, received: bytes) -> Script:
        del target
        self.requests.append((asyncio.get_running_loop().time(), json.loads(received or b"{}")))
        number = len(self.requests) - 1
        return self.scripts(number) if callable(self.scripts) else self.scripts[number]

    async def connect(self, factory: Callable[[], Connection]) -> None:
        if self.connect_s:
            await asyncio.sleep(self.connect_s)
        if self.refuses:
            raise ConnectionRefusedError(111, "Connection refused")
        self.connections += 1
        connection = factory()
        connection.connection_made(Transport(self, connection))
