"""Runs the application under uvicorn, and stops it gracefully."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import uvicorn

from headway.server.app import App
from headway.server.http_protocol import protocol_with
from headway.server.limits import Limits
from headway.server.settings import Settings

log = logging.getLogger("headway.server")
_CUT_S = 2
"""Time for the last error events, when the grace time is over."""
BACKLOG = 2048
_OTHER_DESCRIPTORS = 64
"""What the process needs beside connections."""


class Server(uvicorn.Server):
    """Asked to stop, it takes nothing new, lets streams finish within `drain_s`, then ends them with an error."""

    def __init__(self, app: App, settings: Settings) -> None:
        limits, backlog = _within_descriptors(settings.limits)
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                http=protocol_with(limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=backlog,
                timeout_keep_alive=int(limits.keep_alive_s),
                timeout_graceful_shutdown=int(limits.drain_s) + _CUT_S,
                h11_max_incomplete_event_size=limits.header_bytes,
            )
        )
        self._app = app
        self._drain_s = limits.drain_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.inflight.drain()
        self._say_who_is_left()
        cut = asyncio.get_running_loop().call_later(self._drain_s, self._app.inflight.cut)
        try:
            await super().shutdown(sockets)
        finally:
            cut.cancel()
            self._app.close()

    def _say_who_is_left(self) -> None:
        count = self._app.inflight.count
        if count:
            requests = "1 request gets" if count == 1 else f"{count} requests get"
            with suppress(OSError):
                print(f"Stopping: {requests} up to {self._drain_s:g} s; Ctrl-C again stops at once", file=sys.stderr)


def _within_descriptors(limits: Limits) -> tuple[Limits, int]:
    """Limits and backlog. A connection more than the process may open would make the next file or pipe fail.

    As many as the backlog may be accepted before the first of them can be turned away.
    """
    allowed = _descriptors(limits.connections + BACKLOG + _OTHER_DESCRIPTORS)
    backlog = min(BACKLOG, max(allowed - limits.connections - _OTHER_DESCRIPTORS, allowed // 8, 1))
    connections = min(limits.connections, max(allowed - backlog - _OTHER_DESCRIPTORS, 1))
    return replace(limits, connections=connections), backlog


def _descriptors(wanted: int) -> int:
    """How many this process may have open, after asking for more where that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted and hard != soft:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


async def serve(app: App, settings: Settings, listener: socket.socket) -> None:
    """Until SIGTERM or SIGINT, and then until drained; a second SIGINT ends the draining."""
    # uvicorn's own log lines can be set off by any client at any rate.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    with _signals_end_here():
        await Server(app, settings).serve([listener])


@contextmanager
def _signals_end_here() -> Iterator[None]:
    """uvicorn raises the signal that stopped it once more when it is done; it is not to end the process then."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
