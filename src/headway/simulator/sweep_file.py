"""Rows of a sweep as JSON lines: appended one by one, read again to go on."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Container
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from headway.simulator.sweep import Ended, Row, SweepError

MAX_LINE_BYTES = 1 << 20
MAX_LINES = 1_000_000
_BEGINS = b'{"digest":"'


class _Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    digest: str
    values: dict[str, Any]
    result: dict[str, Any] | None = None
    error: str = ""


class RowFile:
    """Open for one sweep at a time. `ended`: what is in it, by digest. Without a path it keeps nothing."""

    def __init__(self, path: Path | None, wanted: Container[str]) -> None:
        """`wanted`: digests. A last line that was cut off is removed. Raises SweepError if it is of something else."""
        self.ended: dict[str, Ended] = {}
        self._wanted = wanted
        self._path = path
        self._file = None if path is None else self._opened(path)

    def _opened(self, path: Path) -> BinaryIO:
        try:
            file = open(path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise SweepError(f"{path}: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(self._read(path))
        except BlockingIOError:
            file.close()
            raise SweepError(f"{path}: another sweep is writing to it") from None
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, path: Path) -> int:
        """The length of what is whole."""
        whole = 0
        with open(path, "rb") as lines:
            number = 0
            while line := lines.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES or number > MAX_LINES:
                    raise SweepError(f"{path}:{number}: longer than a sweep's file can be")
                if not line.endswith(b"\n") and _BEGINS.startswith(line[: len(_BEGINS)]):
                    break
                self._take(line, f"{path}:{number}")
                whole += len(line)
        return whole

    def _take(self, line: bytes, where: str) -> None:
        try:
            row = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise SweepError(f"{where}: not a row of a sweep; --out FILE must be new, or of an earlier sweep") from None
        if row.digest in self._wanted:
            self.ended[row.digest] = Ended(row.result, row.error)

    def add(self, row: Row) -> None:
        """Raises SweepError if it cannot be written. A failure of the machine is not kept."""
        if self._file is None or not row.ended.lasting:
            return
        line = _Line(row.point.digest, dict(row.point.values), row.ended.result, row.ended.error)
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            raise SweepError(f"{self._path}: {error.strerror}") from None

    def __enter__(self) -> RowFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
