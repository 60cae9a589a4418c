"""HTTP/1.1 by h11 under uvicorn, with deadlines for what comes in and bounds on what is kept."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal, cast

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from headway.server.connection import ABORT
from headway.server.errors import ApiError
from headway.server.limits import Limits

_PIPELINED_BYTES = 64 * 1024
"""Of later requests kept while one is answered. Up to here reading goes on, so that a disconnect is noticed."""


class HeadwayProtocol(H11Protocol):
    """One connection."""

    limits = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting_for: Literal["header", "body"] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None
        # uvicorn would log every request, query string included, to whatever handlers the root logger has.
        self.access_log = False
        application = self.app

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            scope["extensions"] = {ABORT: self.transport.abort}
            await cast(Any, application)(scope, receive, send)

        self.app = cast(Any, with_abort)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._closing, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        # h11 counts a header's bytes only while it is incomplete, so what arrives at once is handed over in parts.
        part = max(self.limits.header_bytes // 2, 1)
        for start in range(0, len(data), part):
            if self.transport.is_closing():
                return
            self.conn.receive_data(data[start : start + part])
            self.handle_events()
        body_is_in = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        if body_is_in and len(self.conn.trailing_data[0]) < _PIPELINED_BYTES:
            self.flow.resume_reading()
        self._watch()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        error = sys.exc_info()[1]
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        what = "the headers are too large" if status == 431 else "this is not a valid HTTP/1.1 request"
        self._refuse(ApiError(status, what))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_unless_flushed()
        else:
            self._watch()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def shutdown(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._close()
        else:
            self.cycle.keep_alive = False

    def _watch(self) -> None:
        """Keeps one deadline running: for a header that has begun or is still owed, or for a body."""
        wanted: Literal["header", "body"] | None = None
        if self.transport.is_closing():
            pass
        elif self.conn.their_state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            wanted = "header"
        elif self.conn.their_state is h11.SEND_BODY:
            wanted = "body"
        if wanted == self._waiting_for:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._waiting_for = wanted
        if wanted is not None:
            seconds = self.limits.header_timeout_s if wanted == "header" else self.limits.body_timeout_s
            self._deadline = self.loop.call_later(seconds, self._deadline_passed)

    def _deadline_passed(self) -> None:
        if self._waiting_for == "header" and not self.conn.trailing_data[0]:
            self._close()
        else:
            self._refuse(ApiError(408, f"the request's {self._waiting_for} took too long to arrive"))

    def _refuse(self, error: ApiError) -> None:
        """Answers by itself, unless the application has begun to, and closes."""
        if self.transport.is_closing():
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send_error(error)
        if answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._close()

    def _send_error(self, error: ApiError) -> None:
        body = error.body()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        response = h11.Response(
            status_code=error.status,
            headers=[*self.server_state.default_headers, *headers],
            reason=STATUS_PHRASES[error.status],
        )
        for item in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(item) or b"")

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
            self._abort_unless_flushed()

    def _abort_unless_flushed(self) -> None:
        """`close` waits until the client has read everything: but not for ever."""
        if self.transport.get_write_buffer_size() and self._closing is None:
            self._closing = self.loop.call_later(self.limits.write_stall_s, self.transport.abort)


def protocol_with(limits: Limits) -> type[HeadwayProtocol]:
    return type("HeadwayProtocol", (HeadwayProtocol,), {"limits": limits})
