"""`headway simulate --chart`: of one run, and of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headway.simulator.simulation import Sink


@contextmanager
def drawing(options: Mapping[str, Any], about: Mapping[str, Any], table: Sink | None) -> Iterator[Sink | None]:
    """A sink that also feeds `table`; when the run is over, its chart is written. Without --chart it is `table`."""
    if options["chart"] is None:
        yield table
        return
    from headway.report.run_charts import Samples, run_chart

    samples = Samples(table)
    yield samples
    write(run_chart(samples, "{workload}: {model} on {replicas} x {chip}".format(**about)), options["chart"])


def write(spec: Mapping[str, Any], path: Path) -> None:
    """Raises ClickException for a chart that cannot be drawn or kept."""
    from headway.cli.plan_deployment import draw

    draw(lambda: spec, path)
    click.echo(f"Wrote {path}", err=True)
