"""The options that bench and simulate share make the same requests at any load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headway.cli.preconditions import given_options
from headway.cli.workload_options import WorkloadChoice, workload_options
from headway.workload.call import Call, WorkloadError


def choice(*arguments: Any) -> WorkloadChoice:
    taken: list[WorkloadChoice] = []

    @click.command()
    @workload_options
    def command(**options: Any) -> None:
        taken.append(WorkloadChoice.taken(options, given_options()))
        assert not options

    result = CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return taken[0]


def calls(made: WorkloadChoice, concurrency: int | None = None, rate_per_s: float | None = None) -> list[Call]:
    return [call for session in made.make(concurrency, rate_per_s).sessions for call in session]


def sizes(found: list[Call]) -> list[tuple[str, int, int, tuple[int, ...]]]:
    return [(call.id, call.num_input_tokens, call.num_output_tokens, call.hash_ids) for call in found]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 1000 * i, "input_length": 100 + 300 * (i % 2), "output_length": 7, "hash_ids": []}
        for i in range(9)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        (
            "--requests",
            30,
            "--input-tokens",
            "100~0.8",
            "--output-tokens",
            "5-50",
            "--prefixes",
            3,
            "--prefix-tokens",
            128,
        ),
        ("--agents", "coding_agent", "--sessions", 2),
        (
            *(
                "--agents",
                "chat",
                "--sessions",
                4,
                "--turns",
                "5~0.6",
                "--calls-per-turn",
                "1-3",
                "--think-time",
                "40s~1.2",
            ),
            *("--tool-time", "2s", "--first-tokens", "90", "--message-tokens", "60~1", "--tool-tokens", "500"),
            *("--answer-tokens", "250~0.8", "--thinking-tokens", "500~1", "--compact-at", 4000, "--requests", 40),
        ),
    ],
)
def test_the_load_changes_when_requests_come_and_not_what_they_are(arguments: tuple[Any, ...]) -> None:
    made = choice(*arguments)
    closed, fast, slow = calls(made, concurrency=3), calls(made, rate_per_s=9.0), calls(made, rate_per_s=0.5)
    assert sizes(closed) == sizes(fast) == sizes(slow)
    assert sizes(calls(choice(*arguments, "--seed", 1), concurrency=3)) != sizes(closed)


def test_a_trace_keeps_its_times_or_becomes_a_closed_loop(trace: Path) -> None:
    made = choice("--trace", trace)
    assert [call.arrival_s for call in calls(made)] == [float(i) for i in range(9)]
    workload = made.make(2, None)
    assert workload.concurrency == 2
    assert {call.arrival_s for session in workload.sessions for call in session} == {0.0}


def test_as_many_requests_are_left_as_were_asked_for(trace: Path) -> None:
    found = calls(choice("--trace", trace, "--max-context", 200, "--requests", 4))
    assert [call.num_input_tokens for call in found] == [100] * 4


@pytest.mark.parametrize("preset", ["chat", "coding_agent"])
def test_a_session_is_cut_at_the_last_request(preset: str) -> None:
    whole = calls(choice("--agents", preset, "--sessions", 30, "--seed", 2))
    assert calls(choice("--agents", preset, "--sessions", 30, "--seed", 2, "--requests", 41)) == whole[:41]


def test_what_is_said_of_sessions_is_what_is_made() -> None:
    made = choice(
        "--agents", "chat", "--turns", 4, "--answer-tokens", 70, "--thinking-tokens", 30, "--think-time", "1min"
    )
    found = calls(made)
    assert len(found) == 4 * 10
    assert {(call.num_output_tokens, call.num_thinking_tokens) for call in found} == {(100, 30)}
    assert {call.gap_s for call in found if call.arrival_s is None} == {60.0}


def test_where_every_call_is_too_long_that_is_said(trace: Path) -> None:
    with pytest.raises(WorkloadError, match="--max-context 50 leaves no call"):
        calls(choice("--trace", trace, "--max-context", 50))


def test_a_session_ends_before_its_first_call_that_is_too_long() -> None:
    everything = choice("--agents", "tracelab", "--sessions", 3, "--shared-tokens", 0)
    assert all(
        call.num_input_tokens + call.num_output_tokens <= 40_000
        for call in calls(
            choice("--agents", "tracelab", "--sessions", 3, "--shared-tokens", 0, "--max-context", 40_000)
        )
    )
    assert any(call.num_input_tokens + call.num_output_tokens > 40_000 for call in calls(everything))


def test_who_arrives_when_no_run_lasts_is_refused() -> None:
    made = choice("--requests", 3, "--arrivals", "constant")
    last_s = [session[0].arrival_s for session in made.make(None, 1e-6, 0.002).sessions]
    assert last_s == pytest.approx([0, 5e8, 1e9])
    with pytest.raises(WorkloadError, match="and none may after 1,000,000,000 s"):
        list(made.make(None, 1e-6, 0.0015).sessions)


def test_the_description_is_plain_and_complete(trace: Path) -> None:
    described = choice("--trace", trace, "--seed", 4).described()
    assert json.loads(json.dumps(described)) == described
    assert (described["trace"], described["seed"]) == (str(trace), 4)
