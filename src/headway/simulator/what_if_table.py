"""What each request of a forked log took: a Parquet file with a row a request."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headway.simulator.what_if import Compared, Taken, WhatIf
from headway.simulator.whole_file import WholeFile

RUNS = ("logged", "simulated", "changed", "difference")
SCHEMA = pa.schema(
    [("id", pa.string()), *((f"{run}_{field.name}", pa.float64()) for run in RUNS for field in fields(Taken))]
)


class WhatIfTable(WholeFile):
    """Columns as `changed_ttft_s`. The file's metadata has under `differences_from` what is taken off the changed."""

    def __init__(self, path: Path) -> None:
        """Raises WorkloadError if the file cannot be made."""
        super().__init__(path)
        self._table = SCHEMA.empty_table()
        try:
            self._part.open("wb").close()
        except OSError as error:
            raise self._unwritable(error) from None

    def put(self, found: WhatIf) -> None:
        schema = SCHEMA.with_metadata({"differences_from": found.differences_from})
        self._table = pa.Table.from_pylist([_row(each) for each in found.by_request], schema)

    def _close(self, whole: bool) -> None:
        if whole:
            pq.write_table(self._table, self._part)


def _row(compared: Compared) -> dict[str, str | float | None]:
    taken = {f"{run}_{name}": value for run in RUNS for name, value in asdict(getattr(compared, run)).items()}
    return {"id": compared.id, **taken}
