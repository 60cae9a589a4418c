"""Processes of this machine that run a sweep's points, one at a time each."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from headway.simulator.sweep import Ended, Run, Values, attempt, here

DIED = Ended(error="the process that ran it ended: perhaps it was out of memory", lasting=False)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """A place: `jobs` processes, None for as many as there are cores; one job needs no other process.

    A process that dies takes its own point with it and no other.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or usable_cores()

    def __call__(self, run: Run, points: Sequence[Values]) -> Iterator[tuple[int, Ended]]:
        if self.jobs == 1:
            yield from here(run, points)
            return
        todo = iter(enumerate(points))
        workers: list[_Worker] = []
        try:
            for _ in range(min(self.jobs, len(points))):
                workers.append(_Worker.started(run))
                workers[-1].give(next(todo))
            while workers:
                ready = set(wait([worker.pipe for worker in workers]))
                for worker in [worker for worker in workers if worker.pipe in ready]:
                    ended = worker.taken()
                    yield worker.index, ended or DIED
                    following = next(todo, None)
                    if ended is None or following is None:
                        worker.end()
                        workers.remove(worker)
                    if following is not None:
                        if ended is None:
                            workers.append(worker := _Worker.started(run))
                        worker.give(following)
        finally:
            for worker in workers:
                worker.end()


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    index: int = -1
    """Of the point in hand."""

    @classmethod
    def started(cls, run: Run) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(run, theirs), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, point: tuple[int, Values]) -> None:
        self.index = point[0]
        try:
            self.pipe.send(point[1])
        except OSError:
            return  # It has died, which `taken` finds.

    def taken(self) -> Ended | None:
        """None: the process is no more."""
        try:
            ended: Ended = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return ended

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(run: Run, pipe: Connection) -> None:
    """Ctrl-C, and a request to end, are for the process that began the sweep: it ends this one."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        while True:
            pipe.send(attempt(run, pipe.recv()))
    except (EOFError, OSError):
        return
