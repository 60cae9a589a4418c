"""`headway simulate --sweep`: the command at every point of a grid, then one table and a chart."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.catalog.machine import ENDINGS
from headway.cli.one_line import INTERRUPTED
from headway.cli.simulate_checks import FIELDS
from headway.cli.sweep_options import NOT_READ, axes_of, options_at

if TYPE_CHECKING:
    from headway.simulator.sweep import Place, Row, Values

MAX_FILES = 10_000
"""Of a directory of own facts."""


def simulate_grid(options: dict[str, Any]) -> None:
    """Raises ClickException, and SweepError for a file or a grid that will not do."""
    from headway.cli.sweep_text import show_sweep, sweep_progress
    from headway.simulator.sweep import grid, sweep

    axes = axes_of(options["sweep"], options["given"])
    _check_chart(options, list(axes))
    _check_values(options, axes)
    digest = cache(_digest)
    points = grid(axes, lambda values: _identity(options_at(options, values), digest))
    rows: dict[str, Row] = {}
    interrupted = False
    with sweep_progress(len(points)) as advance:

        def on_row(row: Row) -> None:
            rows[row.point.digest] = row
            advance(row)

        try:
            sweep(points, Simulated(options), out=options["out"], place=_place(options), on_row=on_row)
        except KeyboardInterrupt:
            interrupted = True
    ended = [rows[point.digest] for point in points if point.digest in rows]
    show_sweep(list(axes), ended, len(points), options["as_json"])
    _draw(options, list(axes), ended)
    if interrupted:
        sys.exit(INTERRUPTED)
    if all(row.ended.error for row in ended):
        sys.exit(1)


@dataclass(frozen=True, slots=True)
class Simulated:
    """Runs `headway simulate` with these options and those of a point; its result is what --json prints."""

    options: Mapping[str, Any]

    def __call__(self, values: Values) -> dict[str, Any]:
        """Raises PointError."""
        from headway.cli.simulate import described, fleet_of, refusals, simulate, slo_of, workload_of
        from headway.cli.simulate_text import as_result
        from headway.simulator.simulation import simulate as run
        from headway.simulator.sweep import PointError

        try:
            with click.Context(simulate), refusals(FIELDS):
                options, setup = fleet_of(options_at(self.options, values))
                workload = workload_of(options, setup)
                summary = run(setup, workload, slo_of(options))
                if summary.interrupted:
                    raise KeyboardInterrupt
                return as_result(described(options, setup, workload), summary)
        except click.ClickException as error:
            raise PointError(error.format_message()) from None


def _place(options: Mapping[str, Any]) -> Place:
    from headway.simulator.workers import Processes

    return Processes(options["jobs"])


def _check_values(options: dict[str, Any], axes: Mapping[str, Sequence[Any]]) -> None:
    """Names, formats, files and contradictions, each beside the first values of the other axes. Numbers are checked
    already, and what does not fit is for its own row to say.
    """
    first = {name: values[0] for name, values in axes.items()}
    _check_point(options_at(options, first))
    for name, values in axes.items():
        for value in values[1:]:
            if isinstance(value, str):
                _check_point(options_at(options, first | {name: value}))


def _check_point(options: dict[str, Any]) -> None:
    from headway.arithmetic.shape import ShapeError
    from headway.cli.simulate import fleet_of, workload_of
    from headway.scheduler.config import ConfigError
    from headway.simulator.router import make_router

    options, setup = fleet_of(options)
    try:
        make_router(setup.router, setup.block_size)
        workload_of(options, setup)
    except (ShapeError, ConfigError):
        return


def _identity(options: Mapping[str, Any], digest: Callable[[Path], str]) -> dict[str, Any]:
    """What a result depends on: options, and what is in the files that they name."""
    known = {name: _content(value, digest) for name, value in options.items() if name not in NOT_READ}
    # Which options were given matters only beside those that a machine file sets.
    return known | {"given": known["given"] if _files(options["system"]) else []}


def _content(value: Any, digest: Callable[[Path], str]) -> Any:
    if isinstance(value, Path):
        return digest(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_content(item, digest) for item in value]
    return [value, *map(digest, files)] if isinstance(value, str) and (files := _files(value)) else value


def _files(text: str) -> list[Path]:
    """Machine files and models on disk that an option's value names."""
    paths = [Path(part) for part in re.split("[,;=]", text)]
    return [path for path in paths if path.suffix in ENDINGS or (path / "config.json").is_file()]


def _digest(path: Path) -> str:
    """Of a file, or of all files in a directory. Raises SweepError for what cannot be read again for each point."""
    from headway.simulator.sweep import SweepError

    files = sorted(child for child in path.rglob("*") if child.is_file()) if path.is_dir() else [path]
    if len(files) > MAX_FILES or not all(file.is_file() for file in files):
        raise SweepError(f"{path}: a sweep needs a file, or a directory of at most {MAX_FILES:,}")
    digests = [str(file.relative_to(path)) + _file_digest(file) for file in files]
    return hashlib.blake2b("\n".join(digests).encode(), digest_size=16).hexdigest()


def _file_digest(path: Path) -> str:
    from headway.simulator.sweep import SweepError

    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError as error:
        raise SweepError(f"{path}: {error.strerror}") from None


def _check_chart(options: Mapping[str, Any], axes: Sequence[str]) -> None:
    if options["chart"] is None:
        return
    from headway.report.measures import MeasureError
    from headway.report.sweep_charts import chosen

    try:
        chosen(axes, options["x"], options["y"], options["by"])
    except MeasureError as error:
        raise click.UsageError(str(error)) from None


def _draw(options: Mapping[str, Any], axes: Sequence[str], rows: Sequence[Row]) -> None:
    if options["chart"] is None:
        return
    from headway.cli.simulate_chart import write
    from headway.report.sweep_charts import chosen, sweep_chart

    points = [(row.point.values, row.ended.result) for row in rows if row.ended.result is not None]
    if points:
        write(sweep_chart(points, chosen(axes, options["x"], options["y"], options["by"])), options["chart"])
    else:
        click.echo("No chart: no point has a result", err=True)
