"""Trace files, line by line, plain or gzipped: no line may fill the memory, every error names file and row."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import closing
from io import BufferedIOBase
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headway.workload.call import WorkloadError

MAX_LINE_BYTES = 16 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
Row = TypeVar("Row")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Row numbers, from 1, and lines that are not blank. Raises WorkloadError for what cannot be read."""
    if path.is_fifo():
        raise WorkloadError(f"{path}: a pipe cannot be read twice, as this is: write it to a file first")
    try:
        opened = _open(path)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from None
    number = 0
    try:
        with closing(opened) as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise WorkloadError(f"{where(path, number)}: the line is longer than {MAX_LINE_BYTES} bytes")
                if not line.isspace():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WorkloadError(f"{where(path, number + 1)}: {text}") from None


def _open(path: Path) -> BufferedIOBase:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP_MAGIC
    return gzip.open(path) if zipped else path.open("rb")


def where(path: Path, number: int) -> str:
    return f"{path}:{number}"


def read_json_rows(path: Path, kind: type[Row]) -> Iterator[tuple[int, Row]]:
    """One JSON object a line. NaN and infinities are no JSON; bounds stand in the types."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
    number = 0
    for number, line in read_lines(path):
        try:
            yield number, decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise WorkloadError(f"{where(path, number)}: {error}") from None
    if not number:
        raise WorkloadError(f"{where(path, 1)}: the trace is empty")
