"""Options of a run's trace events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.out_files import OutFile
from headway.cli.si import plain

if TYPE_CHECKING:
    from headway.simulator.trace_out import TraceOut

Command = Callable[..., None]


def trace_options(command: Command) -> Command:
    limit = click.option(
        "--trace-limit",
        type=click.IntRange(1, 1_000_000_000),
        default=1_000_000,
        show_default=True,
        help="Events in --trace-out at most.",
    )
    out = click.option(
        "--trace-out",
        type=OutFile(".json", ".json.gz"),
        help="Steps and requests as events for Perfetto: FILE.json or FILE.json.gz.",
    )
    return out(limit(command))


@contextmanager
def tracing(options: dict[str, Any]) -> Iterator[TraceOut | None]:
    """What --trace-out asks for; says on stderr what did not fit. Raises WorkloadError."""
    path: Path | None = options["trace_out"]
    if path is None:
        yield None
        return
    from headway.simulator.trace_file import TraceFile
    from headway.simulator.trace_out import TraceOut

    with TraceFile(path, options["trace_limit"]) as file:
        yield TraceOut(file)
    if file.cut_ns is not None:
        click.echo(
            f"{path}: cut after {file.num_events:,} events, at {plain(file.cut_ns / 1e9, 's')} of the run; a greater "
            "--trace-limit shows more",
            err=True,
        )
