"""Cases as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from headway.bench.metrics import METRICS, NOTES
from headway.report.cases import Case
from headway.report.tables import Cell, Table, error_tables, latency_tables, outcome_table, rate_table, unlike

_COLUMN, _BORDER = 24, 4
"""Letters: as wide as a column need be, its name is folded then; and what stands between two."""
_STYLES = {"": "", "good": "green", "bad": "bold red", "dim": "dim"}


def print_cases(cases: Sequence[Case], console: Console | None = None) -> None:
    console = console or Console(highlight=False)
    for table in [outcome_table(cases), *latency_tables(cases), *_parts(rate_table(cases), console.width)]:
        _print(table, console)
    for table in error_tables(cases):
        _print(table, console)
        if table.warning:
            console.print(Text(table.warning, "bold red"))
        console.print(Text(table.note, "dim"))
    if differences := unlike(cases):
        console.print(Text(differences, "yellow"))
    for case in cases:
        for warning in case.warnings:
            console.print(Text(f"{case.name}: {warning}", "bold red"))
        for note in case.notes:
            console.print(Text(f"{case.name}: {note}", "yellow"))
    _print_definitions(cases, console)


def _parts(table: Table, width: int) -> list[Table]:
    """A table whose columns have no room side by side, as several below each other."""
    columns = list(zip(table.header, *table.rows, strict=True))
    parts: list[list[int]] = []
    free = 0
    for i, (header, *cells) in list(enumerate(columns))[1:]:
        need = _BORDER + min(_COLUMN, max([len(header), *(max(len(cell.text), len(cell.small)) for cell in cells)]))
        if not parts or need > free:
            parts.append([])
            free = width - _BORDER - max((len(cell.text) for cell in columns[0][1:]), default=0)
        parts[-1].append(i)
        free -= need
    return [
        replace(
            table,
            header=tuple(table.header[i] for i in (0, *part)),
            rows=tuple(tuple(row[i] for i in (0, *part)) for row in table.rows),
        )
        for part in parts
    ]


def _print(table: Table, console: Console) -> None:
    grid = Grid(title=escape(table.title), title_justify="left", title_style="bold")
    for i, name in enumerate(table.header):
        grid.add_column(escape(name), justify="right" if i else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*map(_text, row))
    console.print(grid)


def _text(cell: Cell) -> Text:
    text = Text(cell.text, _STYLES[cell.tone])
    return text.append(f"\n{cell.small}", "dim") if cell.small else text


def _print_definitions(cases: Sequence[Case], console: Console) -> None:
    shown = {key for case in cases for key in (*case.spreads, *case.rates)}
    for metric in METRICS.values():
        if metric.key in shown:
            console.print(Text(f"{metric.label}: {metric.definition}", "dim"))
    for note in NOTES:
        console.print(Text(note, "dim"))
