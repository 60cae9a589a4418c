"""A file of trace events (the JSON form that Perfetto and chrome://tracing read), written as they come.

Format: "Trace Event Format" of the Chromium project.
"""

from __future__ import annotations

import gzip
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import msgspec

from headway.simulator.whole_file import WholeFile

Event = dict[str, Any]
_encoder = msgspec.json.Encoder()


class TraceFile(WholeFile):
    def __init__(self, path: Path, limit: int) -> None:
        """At most `limit` events, names of tracks not counted. A name in .gz is compressed. Raises WorkloadError, as
        do all methods, if the file cannot be written.
        """
        super().__init__(path)
        self._limit = limit
        self.num_events = 0
        self.cut_ns: int | None = None
        """When the first of the events that found no room was handed in."""
        self._files: list[IO[bytes]] = []
        try:
            self._files.append(self._part.open("wb"))
        except OSError as error:
            raise self._unwritable(error) from None
        if path.suffix == ".gz":
            self._files.append(gzip.GzipFile("", "wb", 6, self._files[0], mtime=0))  # type: ignore[arg-type]
        self._separator = b""
        self._write(b'{"displayTimeUnit":"ns","traceEvents":[')

    def add(self, now_ns: int, *events: Event) -> None:
        """All of them, or none where there is no room for all; then nor for any that come later."""
        if self.cut_ns is None and self.num_events + len(events) > self._limit:
            self.cut_ns = now_ns
        if self.cut_ns is None:
            self.num_events += len(events)
            self._append(events)

    def name(self, *events: Event) -> None:
        """Names of tracks: not limited."""
        self._append(events)

    def _append(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._write(self._separator + b"\n" + _encoder.encode(event))
            self._separator = b","

    def _write(self, raw: bytes) -> None:
        try:
            self._files[-1].write(raw)
        except OSError as error:
            raise self._unwritable(error) from None

    def _close(self, whole: bool) -> None:
        try:
            if whole:
                cut = {} if self.cut_ns is None else {"cut_at_s": self.cut_ns / 1e9}
                self._write(b'\n],"otherData":' + _encoder.encode({"events": self.num_events} | cut) + b"}\n")
        finally:
            with ExitStack() as closing:
                for file in self._files:
                    closing.callback(file.close)
