"""From result files to tables and a page."""

from __future__ import annotations

import os
from pathlib import Path

import click

from headway.bench.results import ResultError
from headway.report.cases import Case, read_cases
from headway.report.rendering import ChartError
from headway.report.terminal import print_cases


def show_report(runs: tuple[Path, ...], html: Path | None, title: str, pictures: Path | None) -> None:
    """Raises ClickException for a path that is no result."""
    try:
        cases = read_cases(runs)
        if html is None and pictures is None:
            print_cases(cases)
            return
        if html is not None:
            _write_page(cases, html, title)
        if pictures is not None:
            _write_pictures(cases, pictures)
    except (ResultError, ChartError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None


def _write_page(cases: list[Case], path: Path, title: str) -> None:
    from headway.report.page import page

    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(page(cases, title), "utf-8")
    os.replace(partial, path)
    click.echo(f"Wrote {path}", err=True)


def _write_pictures(cases: list[Case], directory: Path) -> None:
    from headway.report.charts import charts
    from headway.report.rendering import write_chart

    directory.mkdir(parents=True, exist_ok=True)
    for chart in charts(cases):
        write_chart(chart.spec, directory / f"{chart.name}.png")
    click.echo(f"Wrote pictures to {directory}", err=True)
