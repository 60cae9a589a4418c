"""A small server on a real port, in a thread: a word is a token, and every answer is as long as it was asked to be."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.bench.scripted import event, http_chunk, text, usage

OVERHEAD = 3
Behave = Callable[[dict[str, Any]], "list[bytes | float]"]


def obliging(body: dict[str, Any]) -> list[bytes | float]:
    """Streams `max_tokens` words without delay."""
    prompt = body["messages"][0]["content"]
    count = body["max_tokens"]
    chunks = [event(text(" w", "length" if i == count - 1 else None)) for i in range(count)]
    return [*chunks, event(usage(OVERHEAD + len(prompt.split()), count)), event(b"[DONE]")]


def silent(body: dict[str, Any]) -> list[bytes | float]:
    """Answers one token at once, and never more."""
    return obliging(body) if body["max_tokens"] < 100 else [event(text(" w")), 3600.0]


class LiveServer:
    def __init__(self, behave: Behave) -> None:
        self._behave = behave
        self.port = 0
        self.bodies: list[dict[str, Any]] = []
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._handlers: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            while True:
                await self._one(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()
        finally:
            self._handlers.discard(task)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        body = json.loads(await reader.readexactly(length) or b"{}")
        path = head.split()[1]
        if path == "/v1/models":
            self._whole(writer, {"data": [{"id": "toy", "max_model_len": 4096}]})
        elif path == "/tokenize":
            self._whole(writer, {"tokens": list(range(len(body["prompt"].split())))})
        else:
            self.bodies.append(body)
            await self._stream(writer, self._behave(body))

    def _whole(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data
        )

    async def _stream(self, writer: asyncio.StreamWriter, steps: list[bytes | float]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                writer.write(http_chunk(step))
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def stop(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def live(behave: Behave = obliging) -> Iterator[LiveServer]:
    server = LiveServer(behave)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server._started.wait(120)
    try:
        yield server
    finally:
        server.stop()
        thread.join(120)
        assert not thread.is_alive()
