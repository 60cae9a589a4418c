"""A grid of runs: each point once, wherever there is room for it, and its result kept as soon as it is there.

def run(values):                                    # at the top of a module: other processes import it
    return asdict(simulate(setup(values["system"]), workload(values["rate"])))

if __name__ == "__main__":
    rows = sweep(grid({"system": ["hgx-h100", "hgx-b200"], "rate": [1, 2, 4]}), run, out=Path("rates.jsonl"))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Protocol

import msgspec

MAX_POINTS = 20_000
MAX_ERROR = 1000
"""Letters of one."""
Values = Mapping[str, Any]
"""What a point is at: plain values by the name of what is swept."""
Run = Callable[[Values], Mapping[str, Any]]
"""Gives a result that JSON can hold. Raises PointError where there is none."""


class SweepError(ValueError):
    """A sweep that cannot be run or kept: one line."""


class PointError(ValueError):
    """A point has no result, on whatever machine it is run: one line says why."""


@dataclass(frozen=True, slots=True)
class Point:
    values: Values
    digest: str
    """Of all that its result depends on. Points of one digest are run once."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run came to: a result, or an error."""

    result: dict[str, Any] | None = None
    error: str = ""
    lasting: bool = True
    """False: the machine's failure and not the point's, so it is tried again next time."""


@dataclass(frozen=True, slots=True)
class Row:
    point: Point
    ended: Ended


class Place(Protocol):
    """Where points are run."""

    def __call__(self, run: Run, points: Sequence[Values]) -> Iterator[tuple[int, Ended]]:
        """Each point's index once, as it ends. Closed early, it ends what is in progress."""


def grid(axes: Mapping[str, Sequence[Any]], identity: Callable[[Values], Any] = dict) -> list[Point]:
    """The product of the axes, the last one fastest. `identity`: all that a result depends on, as JSON can hold it,
    beside the version of headway. Raises SweepError.
    """
    if prod(map(len, axes.values())) > MAX_POINTS:
        raise SweepError(f"more than {MAX_POINTS:,} points: sweep fewer values")
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [Point(values, digest(identity(values))) for values in points]


def digest(identity: Any) -> str:
    known = msgspec.json.encode([version("headway"), identity], order="sorted")
    return hashlib.blake2b(known, digest_size=16).hexdigest()


def sweep(
    points: Iterable[Point],
    run: Run,
    *,
    out: Path | None = None,
    place: Place | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Rows in the points' order; `place`: None for all cores of this machine.

    Rows are appended to `out`, JSON lines, as they come, and points that are there already are not run again. `on_row`
    is told of each digest once. On KeyboardInterrupt what had ended is in `out`, and was told. Raises SweepError.
    """
    from headway.simulator.sweep_file import RowFile
    from headway.simulator.workers import Processes

    points, tell = list(points), on_row or (lambda _: None)
    once = {point.digest: point for point in points}
    with RowFile(out, once) as file:
        ended = dict(file.ended)
        for known, found in ended.items():
            tell(Row(once[known], found))
        rest = [point for point in once.values() if point.digest not in ended]
        with closing(_rows(rest, run, place or Processes())) as rows:
            for row in rows:
                file.add(row)
                ended[row.point.digest] = row.ended
                tell(row)
    return [Row(point, ended[point.digest]) for point in points]


def _rows(points: Sequence[Point], run: Run, place: Place) -> Generator[Row, None, None]:
    for index, ended in place(run, [point.values for point in points]):
        yield Row(points[index], ended)


def attempt(run: Run, values: Values) -> Ended:
    """In the process that runs it. The result is what it will be when read from a file."""
    try:
        return Ended(msgspec.json.decode(msgspec.json.encode(run(values)), type=dict[str, Any]))
    except PointError as error:
        return Ended(error=_line(str(error)))
    except MemoryError:
        return Ended(error="out of memory", lasting=False)
    except SweepError as error:
        return Ended(error=_line(str(error)), lasting=False)
    except Exception as error:
        return Ended(error=_line(f"{type(error).__name__}: {error}"), lasting=False)


def _line(text: str) -> str:
    return " ".join(text.split())[:MAX_ERROR]


def here(run: Run, points: Sequence[Values]) -> Iterator[tuple[int, Ended]]:
    """A place: this process, one point after another."""
    for index, values in enumerate(points):
        yield index, attempt(run, values)
