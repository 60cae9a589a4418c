"""The per-request table as a Parquet file, written as the run goes; it appears under its name only when it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from headway.simulator.record import COLUMNS, Cell, Record, row
from headway.simulator.results import Price
from headway.simulator.work_receipts import WorkReceipts
from headway.workload.call import WorkloadError

ROWS_A_GROUP = 65_536
_TEXT = ("id", "session", "reason", "bound")


def _type(column: str) -> pa.DataType:
    if column in _TEXT:
        return pa.string()
    return pa.float64() if column.endswith(("_s", "_j", "_usd")) else pa.int64()


SCHEMA = pa.schema([pa.field(column, _type(column)) for column in COLUMNS])


class RecordTable:
    """A context manager: leaving it with an error other than KeyboardInterrupt leaves no file behind."""

    def __init__(self, path: Path, prices: Sequence[Price], receipts: WorkReceipts) -> None:
        """`prices` of a replica of each pool; `receipts` observe the run. Raises WorkloadError if the file cannot be
        made.
        """
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._power_w = [price.power_w for price in prices]
        self._usd_per_s = [price.usd_per_s for price in prices]
        self._receipts = receipts
        self._rows: list[tuple[Cell, ...]] = []
        try:
            self._writer = pq.ParquetWriter(self._part, SCHEMA)
        except OSError as error:
            raise WorkloadError(f"{path}: {error.strerror or error}") from None

    def __enter__(self) -> RecordTable:
        return self

    def add(self, record: Record) -> None:
        self._rows.append(row(record, self._power_w, self._usd_per_s, self._receipts.take(record.call.id)))
        if len(self._rows) >= ROWS_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
            self._rows = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        keep = kind is None or issubclass(kind, KeyboardInterrupt)
        if keep:
            self._flush()
        self._writer.close()
        if keep:
            self._part.replace(self._path)
        else:
            with suppress(OSError):
                self._part.unlink()
