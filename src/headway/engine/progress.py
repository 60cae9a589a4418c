"""How long the first start still takes, on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

Report = Callable[[str, int, int], None]
"""(what is being done, units done, units in all; 0 when unknown)."""


def quiet(what: str, done: int, total: int) -> None:
    """Reports nothing."""


@contextlib.contextmanager
def terminal_progress() -> Iterator[Report]:
    """One bar for each thing that is being done, on stderr; nothing when that is not a terminal."""
    if not sys.stderr.isatty():
        yield quiet
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            bars.update(tasks[what], completed=done, total=total or None)

        yield report
