"""Server-sent events, as tolerant as the specification asks for."""

from __future__ import annotations

MAX_EVENT_BYTES = 16 * 2**20
_BOM = b"\xef\xbb\xbf"


class StreamError(ValueError):
    """What came is not an event stream, or has no bound."""


class EventParser:
    """`feed` it bytes as they come; it gives the data of each complete event.

    Lines end in LF, CRLF or CR. Comments, `event`, `id` and `retry` are skipped; several `data` lines are joined by LF.
    An event without its blank line at the end of the stream was never sent.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._first = True
        self._after_cr = False

    def feed(self, part: bytes) -> list[bytes]:
        """Raises StreamError when an event grows beyond MAX_EVENT_BYTES."""
        if self._after_cr and part:
            self._after_cr = False
            part = part.removeprefix(b"\n")
        if b"\r" in part:
            self._after_cr = part.endswith(b"\r")
            part = part.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = (self._rest + part).split(b"\n")
        self._rest = lines.pop()
        events = [event for line in lines if (event := self._line(line)) is not None]
        if len(self._rest) + self._data_bytes > MAX_EVENT_BYTES:
            raise StreamError(f"an event is larger than {MAX_EVENT_BYTES} bytes")
        return events

    def _line(self, line: bytes) -> bytes | None:
        """The data of the event that this line ends."""
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data = []
            self._data_bytes = 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value) + 1
        return None
