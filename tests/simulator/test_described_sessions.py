"""What sessions that are described make the simulated fleet do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import main

TWO_TURNS = ("--agents", "chat", "--sessions", "1", "--turns", "2", "--message-tokens", "320", "--shared-tokens", "0")


def answer(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["simulate", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize(
    ("more", "output", "prompts", "reused"),
    [
        ((), 2 * 160, 320 + 800, 464),
        (("--thinking-tokens", "64"), 2 * (160 + 64), 320 + 800, 320),
        (("--compact-at", "799"), 2 * 160, None, 0),
    ],
    ids=["plain", "thinking", "compacted"],
)
def test_what_the_second_turn_finds(more: tuple[str, ...], output: int, prompts: int | None, reused: int) -> None:
    """Of 320 + 160 tokens the last one's KV was not computed, so its block of 16 is not whole. After thinking the
    answer stands at another place, and only the prompt before is found.
    """
    found = answer(*TWO_TURNS, "--answer-tokens", "160", "--block-size", "16", *more)
    assert (found["output_tokens"], found["reused_tokens"]) == (output, reused)
    assert found["input_tokens"] == prompts or 320 < found["input_tokens"] <= 320 + 799 * 0.32


def test_a_fleet_that_stood_idle_says_so() -> None:
    """Two answers of 160 tokens, an hour apart: the model's weights are read 318 times, some 5 ms each."""
    arguments = ("simulate", *TWO_TURNS, "--answer-tokens", "160", "--think-time")
    [line] = [x for x in CliRunner().invoke(main, [*arguments, "1h"]).output.splitlines() if x.startswith("  idle")]
    assert "99.96% of the time" in line
    assert "  idle" not in CliRunner().invoke(main, [*arguments, "0"]).output


@pytest.mark.parametrize(("preset", "rate"), [("chat", 1.0), ("coding_agent", 0.01)])
def test_people_come_more_often_than_agents_that_work_for_hours(preset: str, rate: float) -> None:
    result = CliRunner().invoke(main, ("simulate", "--agents", preset, "--sessions", "1", "--requests", "1", "--json"))
    assert json.loads(result.output)["rate_per_s"] == rate
