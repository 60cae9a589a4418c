"""`headway simulate --sweep`: the command at every point of a grid, then one table and a chart."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from headway.cli.one_line import INTERRUPTED
from headway.cli.simulate_checks import FIELDS, check_blocks
from headway.cli.sweep_files import Files, SameFiles
from headway.cli.sweep_options import axes_of, options_at, units_of
from headway.cli.workload_options import WorkloadChoice

if TYPE_CHECKING:
    from headway.report.sweep_charts import Chosen
    from headway.simulator.sweep import Ended, Place, Row, Run, Values

ROWS_READ = ("trace", "requests", "max-context")
"""Options that say which rows of which trace a point reads."""


def simulate_grid(options: dict[str, Any]) -> None:
    """Raises ClickException, and SweepError for a file or a grid that will not do."""
    from headway.cli.sweep_text import show_sweep, sweep_progress
    from headway.simulator.sweep import Row, grid, sweep

    axes = axes_of(options["sweep"], options["given"])
    _check_chart(options, list(axes))
    files = Files()
    points = grid(axes, lambda values: files.identity(options_at(options, values)))
    _check_values(options, axes)
    run: Run = Simulated(options) if options["ray"] is None else SameFiles(Simulated(options), files.digests)
    ended: dict[str, Ended] = {}
    interrupted = False
    with sweep_progress(len(points)) as advance:

        def on_row(row: Row) -> None:
            ended[row.point.digest] = row.ended
            advance(row)

        try:
            sweep(points, run, out=options["out"], place=_place(options), on_row=on_row)
        except KeyboardInterrupt:
            interrupted = True
    rows = [Row(point, ended[point.digest]) for point in points if point.digest in ended]
    show_sweep(list(axes), units_of(axes), rows, len(points), options["as_json"])
    _draw(options, list(axes), rows)
    if interrupted:
        sys.exit(INTERRUPTED)
    if all(row.ended.error for row in rows):
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
                check_blocks(setup)
                workload = workload_of(options, setup)
                summary = run(setup, workload, slo_of(options))
                if summary.interrupted:
                    raise KeyboardInterrupt
                return as_result(described(options, setup, workload), summary)
        except click.ClickException as error:
            raise PointError(error.format_message()) from None


def _place(options: Mapping[str, Any]) -> Place:
    if options["ray"] is not None:
        from headway.simulator.on_ray import RayCluster

        return RayCluster(options["ray"])
    from headway.simulator.workers import Processes

    return Processes(options["jobs"])


def _check_values(options: dict[str, Any], axes: Mapping[str, Sequence[Any]]) -> None:
    """Names, formats, files and contradictions, each beside the first values of the other axes. Numbers are checked
    already, and what does not fit is for its own row to say.
    """
    first = {name: values[0] for name, values in axes.items()}
    _check_point(options_at(options, first))
    _check_traces(options, axes, first)
    for name, values in axes.items():
        for value in values[1:]:
            if isinstance(value, str):
                _check_point(options_at(options, first | {name: value}))


def _check_traces(options: dict[str, Any], axes: Mapping[str, Sequence[Any]], first: Values) -> None:
    """Reads each as far as points do: a bad row is every point's. Raises WorkloadError."""
    swept = {name: values for name, values in axes.items() if name in ROWS_READ}
    for values in product(*swept.values()):
        at = options_at(options, {**first, **dict(zip(swept, values, strict=True))})
        if at["trace"] is not None:
            # How many rows are skipped as too long is not known before they are read.
            limit = at["requests"] if at["max_context"] is None else None
            choice = WorkloadChoice.taken(at | {"requests": limit, "max_context": None}, at["given"])
            deque(choice.make(at["concurrency"], None).sessions, maxlen=0)


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


def _check_chart(options: Mapping[str, Any], axes: Sequence[str]) -> None:
    if options["chart"] is None:
        return
    from headway.report.measures import MeasureError

    try:
        _chosen(options, axes)
    except MeasureError as error:
        raise click.UsageError(str(error)) from None


def _chosen(options: Mapping[str, Any], axes: Sequence[str]) -> Chosen:
    from headway.report.sweep_charts import chosen

    return chosen(axes, options["x"], options["y"], options["by"], units_of(axes))


def _draw(options: Mapping[str, Any], axes: Sequence[str], rows: Sequence[Row]) -> None:
    if options["chart"] is None:
        return
    from headway.cli.simulate_chart import write
    from headway.report.sweep_charts import sweep_chart

    points = [(row.point.values, row.ended.result) for row in rows if row.ended.result is not None]
    spec = sweep_chart(points, _chosen(options, axes))
    shown = len(spec["data"]["values"])
    if not shown:
        what = "both figures" if points else "a result"
        click.echo(f"No chart: no point has {what}", err=True)
        return
    write(spec, options["chart"])
    if shown < len(points):
        click.echo(f"{len(points) - shown} of {len(points)} points lack a figure of the chart", err=True)
