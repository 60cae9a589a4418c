"""Runs on disk: `run.json` to read, `requests.parquet` to compute from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headway.bench.columns import SCHEMA
from headway.bench.record import Record
from headway.bench.run import FORMAT, Run

RUN = "run.json"
REQUESTS = "requests.parquet"
MAX_JSON_BYTES = 64 * 2**20


class ResultError(ValueError):
    """A result that cannot be read or written; one line that names the path."""


def write_run(directory: Path, run: Run, records: Sequence[Record]) -> None:
    """Each file appears whole or not at all. Raises ResultError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / f".{REQUESTS}.partial"
        pq.write_table(pa.Table.from_pylist([_row(record) for record in records], schema=SCHEMA), partial)
        os.replace(partial, directory / REQUESTS)
        partial = directory / f".{RUN}.partial"
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))
        os.replace(partial, directory / RUN)
    except OSError as error:
        raise ResultError(f"{directory}: {error.strerror or error}") from None


def read_run(directory: Path) -> Run:
    """Raises ResultError."""
    path = directory / RUN
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ResultError(f"{path}: larger than {MAX_JSON_BYTES} bytes")
        run = msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ResultError(f"{path}: not a result of headway bench: {error}") from None
    if run.format != FORMAT:
        raise ResultError(f"{path}: format {run.format}, where this version reads {FORMAT}")
    return run


def read_records(directory: Path) -> list[Record]:
    """Raises ResultError."""
    path = directory / REQUESTS
    try:
        rows = pq.read_table(path, schema=SCHEMA).to_pylist()
        return [msgspec.convert(_unpacked(row), Record) for row in rows]
    except FileNotFoundError:
        raise ResultError(f"{path}: No such file or directory") from None
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror or 'not Parquet'}") from None
    except (pa.ArrowException, msgspec.MsgspecError, ValueError) as error:
        raise ResultError(f"{path}: {str(error).splitlines()[0]}") from None


def _row(record: Record) -> dict[str, object]:
    row = msgspec.structs.asdict(record)
    row["receipt"] = None if record.receipt is None else msgspec.json.encode(record.receipt).decode()
    del row["text"]
    return row


def _unpacked(row: dict[str, object]) -> dict[str, object]:
    receipt = row["receipt"]
    return row | {"receipt": msgspec.json.decode(receipt) if isinstance(receipt, str) else None}
