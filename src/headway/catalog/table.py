"""Reading a catalog file: CSV with a header, every row checked, every complaint with file and line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable

from headway.catalog.figure import CatalogError, Figure, checked_provenance
from headway.catalog.units import Quantity

MAX_FILE_BYTES = 8_000_000
TEXT = "text"
COLUMNS = ("item", "figure", "value", "unit", "status", "source", "date", "note")

Schema = Mapping[str, Quantity | None]
"""Figures that an item may have: a quantity, or None for text."""
Item = dict[str, Figure | str]


def read_bounded(file: Traversable, most_bytes: int) -> bytes:
    """Raises CatalogError for a file that cannot be read or is larger."""
    try:
        with file.open("rb") as stream:
            content: bytes = stream.read(most_bytes + 1)
    except OSError as error:
        raise CatalogError(f"{file}: {error.strerror}") from None
    if len(content) > most_bytes:
        raise CatalogError(f"{file}: larger than {most_bytes} bytes")
    return content


def read_rows(file: Traversable, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """(where, row) for each row. Raises CatalogError for a wrong header, too few or too many cells, or no CSV."""
    text = read_bounded(file, MAX_FILE_BYTES)
    try:
        reader = csv.reader(text.decode("utf-8-sig").splitlines(), strict=True)
        header = next(reader, [])
        if tuple(header) != tuple(columns):
            raise CatalogError(f"{file}, line 1: the columns must be {','.join(columns)}")
        for cells in reader:
            if not cells:
                continue
            where = f"{file}, line {reader.line_num}"
            if len(cells) != len(header):
                raise CatalogError(f"{where}: {len(cells)} cells instead of {len(header)}")
            yield where, dict(zip(header, (cell.strip() for cell in cells), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise CatalogError(f"{file}: not readable as UTF-8 CSV: {error}") from None


def read_items(file: Traversable, schema: Schema) -> dict[str, Item]:
    """Items by name, each with the figures that the file gives it: one row a figure."""
    items: dict[str, Item] = {}
    for where, row in read_rows(file, COLUMNS):
        name, figure = row["item"], row["figure"]
        where = f"{where}, {name or 'no item'}, {figure or 'no figure'}"
        if not name or figure not in schema:
            raise CatalogError(f"{where}: an item and one of these figures are needed: {', '.join(schema)}")
        item = items.setdefault(name, {})
        if figure in item:
            raise CatalogError(f"{where}: given twice in one file")
        item[figure] = _value(row, schema[figure], where)
    return items


def _value(row: dict[str, str], quantity: Quantity | None, where: str) -> Figure | str:
    status, source, date = checked_provenance(row, where)
    value, unit = row["value"], row["unit"]
    if quantity is None:
        if unit != TEXT or not value:
            raise CatalogError(f"{where}: needs a value and the unit {TEXT!r}, not {unit!r}")
        return value
    return Figure(quantity.to_si(value, unit, where), f"{value} {unit}", status, source, date, row["note"])


def required_text(item: Item, key: str, what: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise CatalogError(f"{what}: {key} is missing")
    return value


def required(item: Item, key: str, what: str) -> float:
    value = item.get(key)
    if not isinstance(value, Figure):
        raise CatalogError(f"{what}: {key} is missing")
    return value.value


def optional(item: Item, key: str) -> float | None:
    value = item.get(key)
    return value.value if isinstance(value, Figure) else None


def figures(item: Item) -> dict[str, Figure]:
    return {key: value for key, value in item.items() if isinstance(value, Figure)}
