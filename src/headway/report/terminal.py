"""Cases as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from headway.bench.metrics import METRICS, NOTES
from headway.report.cases import Case
from headway.report.tables import Cell, Table, error_tables, latency_tables, outcome_table, rate_table, unlike

_STYLES = {"": "", "good": "green", "bad": "bold red", "dim": "dim"}


def print_cases(cases: Sequence[Case], console: Console | None = None) -> None:
    console = console or Console(highlight=False)
    for table in [outcome_table(cases), *latency_tables(cases), rate_table(cases)]:
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
