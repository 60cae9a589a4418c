"""A progress bar on a terminal; in a pipe, nothing."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from headway.bench.load import Load


class Progress:
    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, console=console, disable=not console.is_terminal, refresh_per_second=4)
        self._task: TaskID | None = None

    def begin(self, name: str, total: int | None) -> None:
        if self._task is not None:
            self._bars.stop_task(self._task)
        self._task = self._bars.add_task(name, total=total)

    def advance(self, load: Load) -> None:
        if self._task is not None and not self._bars.disable:
            self._bars.update(self._task, completed=len(load.records))

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
