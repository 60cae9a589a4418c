"""What `headway simulate --sweep` prints: a progress bar on a terminal, and one table of all points."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from headway.cli.si import plain, seconds, si
from headway.report.measures import MEASURES, Measure
from headway.report.sweep_charts import said
from headway.simulator.sweep import Row

COLUMNS = {
    "ttft-p50": "TTFT p50",
    "ttft-p99": "TTFT p99",
    "tpot-p50": "TPOT p50",
    "interactivity": "tok/s user",
    "throughput": "tok/s chip",
    "goodput": "good req/s",
    "good-share": "in SLO",
    "hit-rate": "cache hits",
    "usd": "USD/Mtok",
    "tier-usd": "tiers' part",
    "energy": "J/token",
}


@contextmanager
def sweep_progress(total: int) -> Iterator[Callable[[Row], None]]:
    """On a terminal a bar on stderr; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, failed = bar.add_task("sweeping", total=total), 0

        def advance(row: Row) -> None:
            nonlocal failed
            failed += bool(row.ended.error)
            bar.update(task, advance=1, description=f"sweeping, {failed} without a result" if failed else "sweeping")

        yield advance


def show_sweep(axes: Sequence[str], units: Mapping[str, str], rows: Sequence[Row], total: int, as_json: bool) -> None:
    """`units`: s or B, of axes that have one; `total`: of points, those included that were not come to."""
    if as_json:
        points = [_point(row) for row in rows]
        found = {"axes": list(axes), "units": dict(units), "total": total, "points": points}
        click.echo(json.dumps(found, allow_nan=False))
        return
    results = [row.ended.result for row in rows if row.ended.result is not None]
    columns = _columns(results)
    heads = [*(axis.replace("-", " ") for axis in axes), *columns]
    names = [[_said(row.point.values[axis], units.get(axis)) for axis in axes] for row in rows]
    figures = [[_cell(measure, result) for measure in columns.values()] for result in results]
    widths = [max(map(len, column)) for column in zip(heads[: len(axes)], *names, strict=True)]
    widths += [max(map(len, column)) for column in zip(heads[len(axes) :], *figures, strict=True)]
    click.echo(_line(heads, widths, len(axes)))
    left, above = iter(figures), ""
    for row, name in zip(rows, names, strict=True):
        error = row.ended.error
        rest = ["as above" if error == above else error] if error else next(left)
        click.echo(_line([*name, *rest], widths, len(axes) + bool(error)))
        above = error or above
    click.echo(_summed(rows, results, total))
    for text in dict.fromkeys(text for result in results for text in result.get("assumptions", ())):
        click.echo(f"  assuming: {text}")


def _columns(results: Sequence[Mapping[str, Any]]) -> dict[str, Measure]:
    """By their heads, those of which any result has a figure; what tiers did only where there are any."""
    tiers = dict.fromkeys(tier for result in results for tier in result.get("loaded_share", ()))
    found: dict[str, Measure] = {}
    for name, head in COLUMNS.items():
        measure = MEASURES[name]
        if any(measure.of(result) is not None for result in results) and (tiers or name != "tier-usd"):
            found[head] = measure
        if name == "hit-rate":
            found |= {f"from {tier}": Measure("", ("loaded_share", tier), f"from {tier}", "%") for tier in tiers}
    return found


def _point(row: Row) -> dict[str, Any]:
    ended = {"error": row.ended.error} if row.ended.error else {"result": row.ended.result}
    return {"values": dict(row.point.values), **ended}


def _said(value: Any, unit: str | None) -> str:
    if unit is None or not isinstance(value, int | float):
        return said(value)
    return seconds(value) if unit == "s" else si(value, unit)


def _cell(measure: Measure, result: Mapping[str, Any]) -> str:
    value = measure.of(result)
    if value is None:
        return "-"
    if measure.unit == "%":
        return f"{value:.1%}"
    return seconds(value) if measure.unit == "s" else plain(value)


def _line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    """The first `left` cells are words, the others numbers."""
    pairs = zip(cells, [*widths, 0], strict=False)
    return "  " + "  ".join(f"{c:<{w}}" if i < left else f"{c:>{w}}" for i, (c, w) in enumerate(pairs)).rstrip()


def _summed(rows: Sequence[Row], results: Sequence[Mapping[str, Any]], total: int) -> str:
    without = len(rows) - len(results)
    parts = [f"{len(rows):,} of {total:,} points" if len(rows) < total else f"{total:,} points"]
    if without:
        parts.append(f"{without:,} without a result")
    if len(rows) < total:
        parts.append("INTERRUPTED: run again to go on")
    times = sorted({str(result.get("cost_model")) for result in results})
    return f"  {', '.join(parts)}; steps: {', '.join(times)}" if times else f"  {', '.join(parts)}"
