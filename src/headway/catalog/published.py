"""What is published about models, and where each model's configuration in this catalog comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from headway.catalog.figure import CatalogError, Status, checked_provenance
from headway.catalog.table import read_rows

COLUMNS = ("model", "title", "total_params", "active_params", "status", "source", "date", "note")


@dataclass(frozen=True, slots=True)
class Published:
    """Parameter counts as the maker states them (rounded); None: not stated. `source` is that of the configuration."""

    model: str
    title: str
    total_params: float | None
    active_params: float | None
    status: Status
    source: str
    date: str
    note: str


def read_published(file: Traversable) -> Mapping[str, Published]:
    found: dict[str, Published] = {}
    for where, row in read_rows(file, COLUMNS):
        if not row["model"] or row["model"] in found:
            raise CatalogError(f"{where}: a model name that is not given twice is needed")
        status, source, date = checked_provenance(row, where)
        total, active = (_params(row[key], f"{where}, {key}") for key in ("total_params", "active_params"))
        found[row["model"]] = Published(row["model"], row["title"], total, active, status, source, date, row["note"])
    return found


def _params(text: str, where: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1e5 <= value <= 1e15:
        raise CatalogError(f"{where}: {text!r} is not a plausible number of parameters (not billions)")
    return value
