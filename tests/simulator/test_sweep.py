"""A sweep runs each point once, wherever it is run; its file is a record of what has ended, from which it goes on."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.simulator.sweep import MAX_POINTS, Ended, Point, PointError, Row, SweepError, Values, grid, here, sweep
from headway.simulator.sweep_file import MAX_LINE_BYTES
from headway.simulator.workers import DIED, Processes

POINTS = grid({"a": range(4), "b": ["x", "y"]})


def squared(values: Values) -> dict[str, Any]:
    if values["a"] == 2:
        raise PointError("no room\nfor it")
    return {"sum": values["a"] ** 2, "of": (values["b"],), "process": os.getpid()}


def dying(values: Values) -> dict[str, Any]:
    if values["a"] == 1:
        os._exit(1)
    return dict(values)


class Counted:
    """A run that knows what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(self, values: Values) -> dict[str, Any]:
        self.asked.append(dict(values))
        return {"sum": values["a"] ** 2} if values["a"] != 2 else squared(values)


def sums(rows: list[Row]) -> list[Any]:
    return [row.ended.error or (row.ended.result or {})["sum"] for row in rows]


def test_a_grid_is_a_product_in_order() -> None:
    assert [(p.values["a"], p.values["b"]) for p in POINTS[:3]] == [(0, "x"), (0, "y"), (1, "x")]
    assert len({p.digest for p in POINTS}) == 8
    assert grid({"a": range(4), "b": ["x", "y"]}) == POINTS
    assert {p.digest for p in grid({"a": range(4)}, lambda values: values["a"] % 2)} != {p.digest for p in POINTS}
    with pytest.raises(SweepError, match="more than 20,000 points"):
        grid({"a": range(MAX_POINTS), "b": range(2)})


def test_processes_do_what_this_one_does() -> None:
    rows = sweep(POINTS, squared, place=Processes(2))
    alone = sweep(POINTS, squared, place=here)
    assert sums(rows) == sums(alone) == [0, 0, 1, 1, "no room for it", "no room for it", 9, 9]
    assert rows[0].ended.result is not None
    assert rows[0].ended.result["of"] == ["x"], "as it will be when it is read again"
    assert os.getpid() not in {row.ended.result["process"] for row in rows if row.ended.result}


def test_a_process_that_dies_takes_its_own_point_with_it(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    rows = sweep(POINTS, dying, place=Processes(2), out=out)
    assert [row.ended == DIED for row in rows] == [row.point.values["a"] == 1 for row in rows]
    assert out.read_bytes().count(b"\n") == 6, "the machine's failures are not kept"
    assert len(sweep(POINTS, Counted(), place=here, out=out)) == 8


def test_a_mistake_in_a_run_is_a_row_and_not_kept(tmp_path: Path) -> None:
    def mistaken(values: Values) -> dict[str, Any]:
        return {"not JSON": object()} if values["a"] else {"half": 1 / values["a"]}

    rows = sweep(POINTS, mistaken, place=here, out=tmp_path / "rows.jsonl")
    assert rows[0].ended == Ended(error="ZeroDivisionError: division by zero", lasting=False)
    assert rows[7].ended.error.startswith("TypeError")
    assert (tmp_path / "rows.jsonl").read_bytes() == b""


def test_points_of_one_digest_are_run_once() -> None:
    run = Counted()
    rows = sweep(grid({"a": [1, 3], "b": ["x", "y"]}, lambda values: values["a"]), run, place=here)
    assert sums(rows) == [1, 1, 9, 9]
    assert len(run.asked) == 2


@settings(max_examples=30, deadline=None)
@given(done=st.sets(st.integers(0, 7)), torn=st.integers(0, 60))
def test_what_is_in_the_file_is_not_run_again(
    tmp_path_factory: pytest.TempPathFactory, done: set[int], torn: int
) -> None:
    """Whatever had ended, and wherever the last line broke off."""
    out = tmp_path_factory.mktemp("sweep") / "rows.jsonl"
    sweep([POINTS[i] for i in sorted(done)], Counted(), place=here, out=out)
    line = json.dumps({"digest": "0" * 32, "values": {}, "result": {"sum": 1}}, separators=(",", ":"))
    with open(out, "a") as file:
        file.write(line[:torn])
    run, told = Counted(), []
    rows = sweep(POINTS, run, place=here, out=out, on_row=told.append)
    assert run.asked == [dict(point.values) for i, point in enumerate(POINTS) if i not in done]
    assert sums(rows) == [0, 0, 1, 1, "no room for it", "no room for it", 9, 9]
    assert sorted(row.point.digest for row in told) == sorted(point.digest for point in POINTS)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(line["digest"] for line in lines) == sorted(point.digest for point in POINTS)


def test_what_had_ended_before_an_interrupt_is_kept(tmp_path: Path) -> None:
    class Interrupted(Counted):
        def __call__(self, values: Values) -> dict[str, Any]:
            if len(self.asked) == 3:
                raise KeyboardInterrupt
            return super().__call__(values)

    out, told = tmp_path / "rows.jsonl", []
    with pytest.raises(KeyboardInterrupt):
        sweep(POINTS, Interrupted(), place=here, out=out, on_row=told.append)
    assert len(told) == out.read_bytes().count(b"\n") == 3
    rest = Counted()
    assert len(sweep(POINTS, rest, place=here, out=out)) == 8
    assert len(rest.asked) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1 something else", ":1: not a row of a sweep"),
        (b'{"digest":"1","values":{},"result":{}}\n[1]\n', ":2: not a row"),
        (b'{"digest":"1","values":{},"result":{}}\n{"digest":1}\n', ":2: not a row"),
        (b'{"digest":"1","values":{},"more":1}\n', ":1: not a row"),
        (b"[" * 100_000 + b"\n", ":1: not a row"),
        (b"\xff\n", ":1: not a row"),
        (b" " * (MAX_LINE_BYTES + 1), ":1: longer than"),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes, message: str) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_bytes(content)
    run = Counted()
    with pytest.raises(SweepError, match=message):
        sweep(POINTS, run, place=here, out=out)
    assert out.read_bytes() == content
    assert not run.asked


def test_two_sweeps_do_not_write_to_one_file(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    with open(out, "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SweepError, match="another sweep is writing"):
            sweep(POINTS, Counted(), place=here, out=out)
    with pytest.raises(SweepError, match="No such file"):
        sweep(POINTS, Counted(), place=here, out=tmp_path / "nowhere" / "rows.jsonl")


def test_a_place_that_is_left_early_ends_its_processes() -> None:
    started: list[int] = []

    def place(run: Any, points: Any) -> Iterator[tuple[int, Ended]]:
        for index, ended in Processes(2)(run, points):
            started.append((ended.result or {})["process"])
            yield index, ended
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep([Point({"a": i, "b": ""}, str(i)) for i in (0, 1, 3)], squared, place=place)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
