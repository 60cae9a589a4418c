"""The engine's end of the socket to the HTTP process."""

from __future__ import annotations

import math
import select
import socket
from typing import cast

from headway.engine.messages import Frames, Message, ToEngine, frame

_CHUNK_BYTES = 256 * 1024
_MAX_CHUNKS = 16
"""Most chunks read between two steps, so that a flood of requests can't hold up the running ones."""


class PeerGone(Exception):
    """The HTTP process closed its end or died: there is nobody left to work for."""


class Wire:
    """Blocking, for one thread. A slow reader on the other side stops the engine; nothing piles up here."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(True)
        self._frames = Frames("to_engine")
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def receive(self, wait_s: float) -> list[ToEngine]:
        """What has arrived, waiting up to `wait_s` for the first byte. Raises PeerGone, and FrameError on garbage."""
        messages: list[Message] = []
        wait_ms = max(0, math.ceil(wait_s * 1000))
        for _ in range(_MAX_CHUNKS):
            if not self._poll.poll(wait_ms):
                break
            messages += self._frames.feed(self._read())
            wait_ms = 0
        return cast("list[ToEngine]", messages)

    def _read(self) -> bytes:
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except OSError:
            raise PeerGone from None
        if not data:
            raise PeerGone
        return data

    def send(self, *messages: Message) -> None:
        """Raises PeerGone."""
        try:
            self._socket.sendall(b"".join(map(frame, messages)))
        except OSError:
            raise PeerGone from None
