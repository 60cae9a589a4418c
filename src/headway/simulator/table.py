"""The per-request table as a Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headway.simulator.columns import SCHEMA
from headway.simulator.price import Price
from headway.simulator.record import Cell, Record, row
from headway.simulator.whole_file import WholeFile
from headway.simulator.work_receipts import WorkReceipts

ROWS_A_GROUP = 65_536


class RecordTable(WholeFile):
    """Records as they come: a row each."""

    def __init__(self, path: Path, prices: Sequence[Price], receipts: WorkReceipts) -> None:
        """`prices` of a replica of each pool; `receipts` observe the run. Raises WorkloadError if the file cannot be
        made.
        """
        super().__init__(path)
        self._usd_per_s = [price.usd_per_s for price in prices]
        self._receipts = receipts
        self._rows: list[tuple[Cell, ...]] = []
        try:
            self._writer = pq.ParquetWriter(self._part, SCHEMA)
        except OSError as error:
            self._discard()
            raise self._unwritable(error) from None

    def add(self, record: Record) -> None:
        """Raises WorkloadError if it cannot be written."""
        self._rows.append(row(record, self._usd_per_s, self._receipts.take(record.call.id)))
        if len(self._rows) >= ROWS_A_GROUP:
            try:
                self._flush()
            except OSError as error:
                raise self._unwritable(error) from None

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
            self._rows = []

    def _close(self, whole: bool) -> None:
        try:
            if whole:
                self._flush()
        finally:
            self._writer.close()
