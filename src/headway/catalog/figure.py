"""A figure: a value in SI units that says where it comes from. And the one error of this package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

Status = Literal["measured", "datasheet", "announced", "rumour"]
STATUSES: tuple[Status, ...] = get_args(Status)
_DATE = re.compile(r"(19|20)\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


class CatalogError(ValueError):
    """A fact that is missing, unknown, or badly written; the text names file, line and unit where there is one."""


@dataclass(frozen=True, slots=True)
class Figure:
    value: float
    """In the SI unit that the figure's name ends in."""
    written: str
    """As it stands in the file, with its unit."""
    status: Status
    source: str
    date: str
    """When the source said so, or was read: YYYY, YYYY-MM or YYYY-MM-DD."""
    note: str = ""


def checked_provenance(row: dict[str, str], where: str) -> tuple[Status, str, str]:
    """Status, source and date of a row. Raises CatalogError for one that is missing or malformed."""
    status, source, date = (row.get(key, "") for key in ("status", "source", "date"))
    if status not in STATUSES:
        raise CatalogError(f"{where}: status must be one of {', '.join(STATUSES)}, not {status!r}")
    if not source:
        raise CatalogError(f"{where}: source is missing")
    if not _DATE.fullmatch(date):
        raise CatalogError(f"{where}: date must be YYYY, YYYY-MM or YYYY-MM-DD, not {date!r}")
    return status, source, date
