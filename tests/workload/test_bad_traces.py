"""Every field of every format, spoilt in every way: the trace still makes sense, or one line names file and row."""

from __future__ import annotations

import copy
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli.simulate import simulate
from headway.scheduler.step_records import StepLogError
from headway.simulator.replay import replay
from headway.workload import lines
from headway.workload.call import Call, WorkloadError
from headway.workload.trace import open_trace
from tests.scheduler.drive import Drive, config, request

TRACES = Path(__file__).parents[1] / "data" / "traces"
WRONG: list[Any] = [None, "x", -1, 0, 0.5, math.nan, math.inf, 1e308, 1 << 70, True, {}, [[]], [-1], [1 << 40]]
WRONG_CELLS = ["", "nan", "-1", "inf", "1e9", "²", "9" * 30, "\0", "x" * 50]
MOST_OF_A_LINE = 400
MOST_OF_A_DIFFERENCE = 1000
"""It says what was logged and what was decided."""
Spoilt = Iterator[list[str]]


def head(name: str, rows: int) -> list[str]:
    return (TRACES / name).read_text().splitlines()[:rows]


def short_session(name: str = "short") -> str:
    """With one sub-agent."""
    row = json.loads(head("coding_agent_sub_agents.jsonl", 1)[0])
    agent = next(call for call in row["r"] if call["ty"] == "subagent")
    return json.dumps(row | {"id": name, "r": [row["r"][0], agent | {"r": agent["r"][:1], "t": 200}]})


def step_log() -> list[str]:
    """The first record of each kind is what gets spoilt."""
    drive = Drive(config())
    drive.add(request("a", 9, 3), request("b", 7, 2, session="s"))
    drive.run()
    return [line.decode().rstrip() for line in drive.log]


def places(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Of every field, and of each list's first."""
    fields = value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ()
    for field in fields:
        yield (*above, field)
        yield from places(value[field], (*above, field))


def spoilt_json(text: str) -> Iterator[str]:
    row = json.loads(text)
    for *above, last in places(row):
        for wrong in [WRONG, *WRONG]:
            other = copy.deepcopy(row)
            spot = other
            for field in above:
                spot = spot[field]
            if wrong is WRONG:
                del spot[last]
            else:
                spot[last] = wrong
            yield json.dumps(other)
    yield from (json.dumps(wrong) for wrong in WRONG)


def spoilt_rows(rows: list[str], which: int) -> Spoilt:
    for text in spoilt_json(rows[which]):
        yield [*rows[:which], text, *rows[which + 1 :]]


def spoilt_csv() -> Spoilt:
    rows = head("azure_conv.csv", 3)
    for column in range(3):
        for wrong in WRONG_CELLS:
            cells = rows[2].split(",")
            cells[column] = wrong
            yield [*rows[:2], ",".join(cells)]


def spoilt_logs() -> Spoilt:
    rows = step_log()
    events = [json.loads(row)["event"] for row in rows]
    for event in dict.fromkeys(events):
        yield from spoilt_rows(rows, events.index(event))


FORMATS = {
    "azure": spoilt_csv,
    "mooncake": lambda: spoilt_rows(head("mooncake_conversation.jsonl", 2), 1),
    "tracelab": lambda: spoilt_rows(head("tracelab_round_trace.jsonl", 2), 1),
    "sessions": lambda: spoilt_rows([short_session(), short_session("other")], 1),
    "step log": spoilt_logs,
}


def check_text(path: Path, error: Exception, most: int = MOST_OF_A_LINE) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < most + len(str(path))
    assert re.match(rf"{re.escape(str(path))}:( line )?\d+: ", text), text


def check_call(call: Call) -> None:
    assert 1 <= call.num_input_tokens <= 1 << 31
    assert 1 <= call.num_output_tokens <= 1 << 31
    assert call.arrival_s is None or 0 <= call.arrival_s <= 1e13
    assert 0 <= call.gap_s <= 1e13
    assert all(0 <= i < 1 << 64 for i in call.hash_ids)


@pytest.mark.parametrize("name", FORMATS)
def test_a_spoilt_trace_makes_sense_or_gets_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace"
    refused = 0
    for rows in FORMATS[name]():
        path.write_text("\n".join(rows) + "\n")
        try:
            for session in open_trace(path).sessions:
                for call in session:
                    check_call(call)
        except WorkloadError as error:
            check_text(path, error)
            refused += 1
    assert refused


def test_a_spoilt_log_replays_or_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for rows in spoilt_logs():
        path.write_text("\n".join(rows) + "\n")
        try:
            replay(path)
        except (StepLogError, WorkloadError) as error:
            check_text(path, error, MOST_OF_A_DIFFERENCE)


LONG = 4000
EMPTY = {"nothing": b"", "blank lines": b"\n\n  \n", "a null": b"\0", "binary": bytes(range(256)) * 4}


@pytest.mark.parametrize("case", EMPTY)
def test_what_is_no_text_gets_one_line(tmp_path: Path, case: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(EMPTY[case])
    with pytest.raises(WorkloadError) as caught:
        list(open_trace(path).sessions)
    check_text(path, caught.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([short_session()] * 2, ":2: id 'short' is that of row 1"),
        ([json.dumps({"id": "a", "bs": 64, "r": []})], ":1: no session up to here has a call"),
        ([*head("azure_conv.csv", 1), "2023-11-16 18:15:46,9,99999999999"], ":2: GeneratedTokens must be .* to 2,147"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(tmp_path: Path, rows: list[str], said: str) -> None:
    path = tmp_path / "trace"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(WorkloadError, match=said):
        list(open_trace(path).sessions)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace")
    with pytest.raises(WorkloadError, match="a pipe cannot be read twice"):
        open_trace(tmp_path / "trace")


def test_a_call_too_far_in_the_future_names_the_file(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text('{"timestamp": 9e14, "input_length": 600, "output_length": 5, "hash_ids": [1]}\n')
    result = CliRunner().invoke(simulate, ["--trace", str(trace)])
    assert result.output == f"Error: {trace}: call 1 arrives after 9e+11 s, and none may after 1,000,000,000 s\n"


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_without_end_gets_one_line_in_every_format(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"step log": step_log()[0], "sessions": short_session()}.get(name) or next(iter(FORMATS[name]()))[0]
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", LONG)
    path = tmp_path / "trace"
    path.write_text(first + "\n" + "[" * (LONG + 1))
    with pytest.raises(WorkloadError, match=f":2: the line is longer than {LONG} bytes"):
        list(open_trace(path).sessions)


def test_the_command_prints_one_line_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    trace, table, picture = tmp_path / "trace", tmp_path / "out.parquet", tmp_path / "out.json"
    trace.write_text("\n".join([*head("azure_conv.csv", 30), "2023-11-16 19:15:46,-5,1"]))
    result = CliRunner().invoke(simulate, ["--trace", str(trace), "--out", str(table), "--trace-out", str(picture)])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {trace}:31: ContextTokens must be a whole number")
    assert result.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == [trace]
