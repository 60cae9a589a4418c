"""Server-sent events: a stream that ends with [DONE], or with one error event and no [DONE]."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.server.connection import Writer, while_connected
from headway.server.errors import ApiError, ClientGone

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


class EventStream(Response):
    """The 200 is sent with the first event, so what goes wrong before it still gets a status of its own."""

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        write_stall_s: float,
        describe: Callable[[Exception], ApiError],
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._events = events
        self._write_stall_s = write_stall_s
        self._describe = describe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(receive, self._run(Writer(scope, send, self._write_stall_s)))

    async def _run(self, writer: Writer) -> None:
        try:
            async with aclosing(self._events):
                async for data in self._events:
                    if not writer.started:
                        await writer.start(200, _HEADERS)
                    await writer.write(data)
            await writer.write(DONE, last=True)
        except ClientGone:
            raise
        except Exception as error:
            if not writer.started:
                raise
            await writer.write(event(self._describe(error).body()), last=True)
