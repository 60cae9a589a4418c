"""Readers against the cuts of public traces, and the one line that a bad trace gets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from headway.workload import lines
from headway.workload.call import Call, Session, WorkloadError
from headway.workload.trace import open_trace

TRACES = Path(__file__).parents[1] / "data" / "traces"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
MOONCAKE = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
EVENT = {"event_type": "user_message", "timestamp": "2026-06-01T05:40:20.151Z"}
ROUND = {"session_id": "s", "input_tokens_total": 10, "output_tokens": 1, "timing_events": [EVENT]}
CALL = {"t": 0, "in": 100, "out": 5, "h": [1, 1]}
SESSION = {"id": "a", "bs": 64, "r": [CALL]}


def sessions(name: str) -> list[Session]:
    return list(open_trace(TRACES / name).sessions)


def calls(name: str) -> list[Call]:
    return [call for session in sessions(name) for call in session]


def written(path: Path, *rows: object) -> Path:
    text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    path.write_text(text)
    return path


def common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_azure() -> None:
    read = calls("azure_conv.csv")
    assert len(read) == 400
    assert [(c.num_input_tokens, c.num_output_tokens) for c in read[:2]] == [(374, 44), (396, 109)]
    assert read[0].arrival_s == 0
    assert read[1].arrival_s == pytest.approx(50.9951690 - 46.6805900, abs=1e-6)


def test_mooncake() -> None:
    read = calls("mooncake_conversation.jsonl")
    assert len(read) == 120
    assert (read[0].num_input_tokens, read[0].num_output_tokens, read[0].hash_ids) == (6758, 500, tuple(range(14)))
    assert common(read[0].hash_ids, read[1].hash_ids) == 1


def test_coding_agent_sessions() -> None:
    read = sessions("coding_agent_sessions.jsonl")
    rows = [json.loads(line) for line in (TRACES / "coding_agent_sessions.jsonl").read_text().splitlines()]
    for session, row in zip(read, rows, strict=True):
        own = [call for call in row["r"] if call.get("ty") in ("n", "s")]
        assert [c.num_input_tokens for c in session] == [call["in"] for call in own]
        assert all(c.arrival_s is None for c in session[1:])
        gap_s = own[1]["t"] - own[0]["t"] - own[0].get("api", 0.0)
        assert session[1].gap_s == pytest.approx(max(0.0, gap_s))
        assert [len(c.hash_ids) for c in session] == [sum(call["h"][1::2]) for call in own]


def test_sub_agents_run_side_by_side_and_their_parent_waits() -> None:
    (session,) = sessions("coding_agent_sub_agents.jsonl")
    assert [c.agent for c in session] == [0] * 16 + [1] * 5 + [2] * 7 + [0] * 4
    assert {n: c.after for n, c in enumerate(session) if c.after is not None} == {21: (15,), 28: (20, 27)}
    gaps_s = {n: round(session[n].gap_s, 2) for n in (16, 21, 28)}
    assert gaps_s == {16: 0.72, 21: 0.73, 28: 28.45}, "from the parent's end, and from the end of the later sub-agent"
    assert common(session[16].hash_ids, session[21].hash_ids) == 174, "sub-agents have a prompt of their own"
    assert not common(session[0].hash_ids, session[16].hash_ids)
    assert len({c.id for c in session}) == len(session)
    assert {c.turn for c in session[15:29]} == {3}


def test_nobody_waits_for_a_sub_agent_in_the_background(tmp_path: Path) -> None:
    inner = {"t": 0, "in": 64, "out": 1, "h": [7, 1]}
    background = {"t": 6, "ty": "subagent", "dur_ms": None, "r": [inner, inner | {"t": 9}]}
    waited = {"t": 11, "ty": "subagent", "dur_ms": 4000, "r": [inner | {"h": [1, 1]}]}
    rows = [CALL | {"api": 5}, background, waited, CALL | {"t": 20}, CALL | {"t": 30}]
    (session,) = open_trace(written(tmp_path / "t.jsonl", SESSION | {"tool_tokens": 64, "r": rows})).sessions
    assert [(c.agent, c.after, c.gap_s) for c in session] == [
        (0, None, 0), (1, None, 1), (1, None, 9), (2, (0,), 2), (0, None, 9), (0, None, 10)
    ]  # fmt: skip
    shares = [bool(common(session[0].hash_ids, c.hash_ids)) for c in session]
    assert shares == [True, False, False, True, True, True], "the shared prompt is shared where the ids say so"


def test_ids_local_to_a_session_stay_apart_behind_the_shared_prompt(tmp_path: Path) -> None:
    row = {"bs": 64, "tool_tokens": 128, "system_tokens": 64, "r": [{"t": 0, "in": 640, "out": 5, "h": [1, 10]}]}
    path = written(tmp_path / "t.jsonl", {"id": "a", **row}, {"id": "b", **row}, {"id": "c", **row, "tool_tokens": 64})
    first, second, other = (session[0].hash_ids for session in open_trace(path).sessions)
    assert common(first, second) == 3
    assert common(first, other) == 0
    assert len(set(first + second)) == 17


def test_tracelab() -> None:
    read = sessions("tracelab_round_trace.jsonl")
    rows = [json.loads(line) for line in (TRACES / "tracelab_round_trace.jsonl").read_text().splitlines()]
    assert sum(map(len, read)) == len(rows) == 19
    claude = next(s for s in read if s[0].session == "claude:claude-public-example")
    own = [row for row in rows if row["session_id"] == "claude:claude-public-example"]
    for earlier, later, row in zip(claude, claude[1:], own[1:], strict=False):
        assert common(earlier.hash_ids, later.hash_ids) == min(row["prefix_tokens"], earlier.num_input_tokens) // 64
    assert claude[1].gap_s == pytest.approx(50.938 - 31.647, abs=1e-3), "from the last event to the last tool result"


def test_gzipped_reads_the_same(tmp_path: Path) -> None:
    zipped = tmp_path / "azure.csv.gz"
    zipped.write_bytes(gzip.compress((TRACES / "azure_conv.csv").read_bytes()))
    assert list(open_trace(zipped).sessions) == sessions("azure_conv.csv")


def deep(levels: int) -> dict[str, object]:
    return {"t": 9, "ty": "subagent", "r": [CALL, *([deep(levels - 1)] if levels > 1 else [])]}


BAD = {
    "unknown format": ([{"a": 1}], ":1: not a trace that is known"),
    "no JSON": (["{{{\n"], ":1: not a trace that is known"),
    "empty": ([""], ":1: the trace is empty"),
    "only a header": ([AZURE], ":2: the trace is empty"),
    "azure: fields": ([AZURE, "2023-11-16 18:15:46.68,1\n"], ":2: 2 fields where there should be 3"),
    "azure: date": ([AZURE, "yesterday,1,1\n"], ":2: TIMESTAMP 'yesterday' is no date"),
    "azure: negative": ([AZURE, "2023-11-16 18:15:46,-5,1\n"], ":2: ContextTokens must be a whole number"),
    "azure: nan": ([AZURE, "2023-11-16 18:15:46,5,nan\n"], ":2: GeneratedTokens must be a whole number"),
    "azure: zero": ([AZURE, "2023-11-16 18:15:46,0,1\n"], ":2: ContextTokens must be a whole number from 1 to"),
    "azure: unsorted": (
        [AZURE, "2023-11-16 18:15:46,5,1\n", "2023-11-16 18:15:48,5,1\n", "2023-11-16 18:15:47,5,1\n"],
        ":4: arrives at 1 s, before the row above",
    ),
    "azure: before the first": (
        [AZURE, "2023-11-16 18:15:46,5,1\n", "2023-11-16 18:15:40,5,1\n"],
        ":3: TIMESTAMP is before that of the first row",
    ),
    "mooncake: negative time": ([MOONCAKE, MOONCAKE | {"timestamp": -1}], ":2: Expected `float` >= 0.0"),
    "mooncake: NaN": ([MOONCAKE, '{"timestamp": NaN, "input_length": 6}\n'], ":2: JSON is malformed"),
    "mooncake: wrong type": ([MOONCAKE, MOONCAKE | {"input_length": "6"}], ":2: Expected `int`, got `str`"),
    "mooncake: fraction": ([MOONCAKE, MOONCAKE | {"output_length": 0.5}], ":2: Expected `int`, got `float`"),
    "mooncake: field": ([MOONCAKE, {"timestamp": 0, "input_length": 6}], ":2: Object missing required field"),
    "mooncake: ids": ([MOONCAKE, MOONCAKE | {"hash_ids": [1, 2, 3]}], ":2: 3 hash_ids, where 600 tokens have 1 whole"),
    "mooncake: unsorted": ([MOONCAKE | {"timestamp": 9}, MOONCAKE], ":2: arrives at 0 s, before the row above"),
    "tracelab: no time": ([ROUND, ROUND | {"timing_events": []}], ":2: timing_events is empty"),
    "tracelab: date": (
        [ROUND, ROUND | {"timing_events": [EVENT | {"timestamp": "x"}]}],
        ":2: Invalid RFC3339 encoded datetime",
    ),
    "sessions: odd runs": ([SESSION | {"r": [CALL | {"h": [1, 2, 3]}]}], ":1: h must be pairs"),
    "sessions: huge run": ([SESSION | {"r": [CALL | {"h": [1, 1 << 30]}]}], ":1: h must be pairs of start and length"),
    "sessions: block size": ([SESSION, SESSION | {"bs": 32}], ":2: bs is 32, and 64 in the first row"),
    "sessions: sub-agent backwards": (
        [SESSION | {"r": [CALL, {"t": 9, "ty": "subagent", "r": [CALL | {"t": 5}, CALL]}]}],
        ":1: a call of the session starts before",
    ),
    "sessions: negative duration": (
        [SESSION, SESSION | {"r": [CALL, {"t": 9, "ty": "subagent", "dur_ms": -1, "r": [CALL]}]}],
        ":2: Expected `float` >= 0.0",
    ),
    "sessions: too deep": ([SESSION | {"r": [CALL, deep(9)]}], ":1: sub-agents within sub-agents, more than 8 deep"),
    "sessions: backwards": ([SESSION | {"r": [CALL | {"t": 5}, CALL]}], ":1: a call of the session starts before"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_trace_gets_one_line_with_file_and_row(tmp_path: Path, case: str) -> None:
    rows, message = BAD[case]
    path = written(tmp_path / "trace", *rows)
    with pytest.raises(WorkloadError) as caught:
        list(open_trace(path).sessions)
    text = str(caught.value)
    assert text.startswith(str(path) + message)
    assert "\n" not in text


def test_a_long_line_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    path = written(tmp_path / "trace", MOONCAKE, "[" * 100_000)
    with pytest.raises(WorkloadError, match=":2: the line is longer than 1000 bytes"):
        list(open_trace(path).sessions)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-20], lambda raw: raw[:60] + b"\0\0\0\0" + raw[64:]])
def test_a_damaged_gzip_gets_one_line(tmp_path: Path, damage) -> None:
    path = tmp_path / "azure.csv.gz"
    path.write_bytes(damage(gzip.compress((TRACES / "azure_conv.csv").read_bytes())))
    with pytest.raises(WorkloadError, match=r"azure\.csv\.gz:"):
        list(open_trace(path).sessions)


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(WorkloadError):
            open_trace(path)
