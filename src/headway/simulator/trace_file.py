"""A file of trace events (the JSON form that Perfetto and chrome://tracing read), written as they come.

It appears under its name only when it is whole. Format: "Trace Event Format" of the Chromium project.
"""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from headway.workload.call import WorkloadError

Event = dict[str, Any]
_encoder = msgspec.json.Encoder()


class TraceFile:
    """A context manager: leaving it with an error other than KeyboardInterrupt leaves no file behind."""

    def __init__(self, path: Path, limit: int) -> None:
        """At most `limit` events, names of tracks not counted. A name in .gz is compressed. Raises WorkloadError, as
        do all methods, if the file cannot be written.
        """
        self._path = path
        self._limit = limit
        self._part = path.with_name(path.name + ".part")
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

    def __enter__(self) -> TraceFile:
        return self

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

    def _unwritable(self, error: OSError) -> WorkloadError:
        return WorkloadError(f"{self._path}: {error.strerror or error}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        whole = False
        try:
            if kind is None or issubclass(kind, KeyboardInterrupt):
                self._finish()
                whole = True
        finally:
            if not whole:
                self._discard()

    def _finish(self) -> None:
        cut = {} if self.cut_ns is None else {"cut_at_s": self.cut_ns / 1e9}
        self._write(b'\n],"otherData":' + _encoder.encode({"events": self.num_events} | cut) + b"}\n")
        try:
            for file in reversed(self._files):
                file.close()
            self._part.replace(self._path)
        except OSError as error:
            raise self._unwritable(error) from None

    def _discard(self) -> None:
        for file in reversed(self._files):
            with suppress(OSError):
                file.close()
        with suppress(OSError):
            self._part.unlink()
