"""The client's side of a request: its body, whether it is still there, and whether it still reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headway.server.errors import ApiError, ClientGone, shown
from headway.server.inflight import Held
from headway.server.limits import Limits

Result = TypeVar("Result")
ABORT = "headway.abort"
"""ASGI extension: a function that drops the connection at once."""
_PART_BYTES = 64 * 1024


async def read_json(request: Request, limits: Limits) -> bytes:
    """The body. Raises ApiError (413, 415) or ClientGone."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"the body must have the content type application/json, not {shown(kind)}")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise ApiError(415, f"the body must not be compressed, but its encoding is {shown(encoding)}")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limits.body_bytes:
        raise _too_large(limits)
    held: Held = request.scope["headway.held"]
    body = bytearray()
    try:
        async for part in request.stream():
            if len(body) + len(part) > limits.body_bytes:
                raise _too_large(limits)
            held.grow(len(part))
            body += part
    except ClientDisconnect:
        raise ClientGone from None
    return bytes(body)


def _too_large(limits: Limits) -> ApiError:
    # What is left of the body is not read, so nothing else can come over this connection.
    message = f"the body is larger than the limit of {limits.body_bytes} bytes"
    return ApiError(413, message, code="body_too_large", headers={"connection": "close"})


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """Runs `work`; when the client goes away first, cancels it and raises ClientGone."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_until_disconnect(receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        watch.cancel()
        task.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _until_disconnect(receive: Receive) -> None:
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()


class Writer:
    """Sends a response's pieces. A client that doesn't read for `write_stall_s` is dropped."""

    def __init__(self, scope: Scope, send: Send, write_stall_s: float) -> None:
        self._send = send
        self._write_stall_s = write_stall_s
        self._abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
        self.started = False

    async def start(self, status: int, headers: dict[str, str]) -> None:
        self.started = True
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._within_deadline(self._send({"type": "http.response.start", "status": status, "headers": raw}))

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Raises ClientGone."""
        await self._within_deadline(self._send({"type": "http.response.body", "body": data, "more_body": not last}))

    async def _within_deadline(self, sending: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._write_stall_s):
                await sending
        except TimeoutError:
            if self._abort is not None:
                self._abort()
            raise ClientGone from None


class JsonAnswer(Response):
    """A whole answer, handed over no faster than the client reads it: what it leaves unread would pile up uncounted."""

    def __init__(self, body: bytes, write_stall_s: float) -> None:
        super().__init__(body, media_type="application/json")
        self._write_stall_s = write_stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        body = bytes(self.body)
        writer = Writer(scope, send, self._write_stall_s)
        await writer.start(200, {"content-type": "application/json", "content-length": str(len(body))})
        for start in range(0, len(body), _PART_BYTES):
            end = start + _PART_BYTES
            await writer.write(body[start:end], last=end >= len(body))
