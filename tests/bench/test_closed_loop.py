"""A closed loop pauses only where it is told to, measured and simulated alike."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headway.bench.load import Load
from headway.cli.simulate import simulate
from headway.cli.workload_options import WorkloadChoice, workload_options
from tests.bench.asking import drive
from tests.bench.scripted import Server, answer

LONE = ("--requests", "6", "--input-tokens", "60", "--output-tokens", "3")


def chosen(*arguments: str) -> WorkloadChoice:
    """What `headway bench` and `headway simulate` make of the same words."""
    found: list[WorkloadChoice] = []

    @click.command()
    @workload_options
    def command(**options: Any) -> None:
        found.append(WorkloadChoice.taken(options | {"concurrency": 2}, ()))

    assert CliRunner().invoke(command, arguments).exit_code == 0
    return found[0]


def measured(*arguments: str, concurrency: int = 1) -> Load:
    return drive(chosen(*LONE, *arguments).make(concurrency, None), Server(lambda _: answer(0.5, [0.25, 0.25])))


def simulated(*arguments: str) -> dict[str, Any]:
    fleet = ("--model", "smollm2-135m", "--system", "hgx-h100", "--concurrency", "1", "--json")
    result = CliRunner().invoke(simulate, [*LONE, *fleet, *arguments])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_next_request_is_due_when_the_one_before_has_ended() -> None:
    load = measured(concurrency=2)
    assert [record.scheduled_s for record in load.records] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_a_lone_simulated_client_is_never_idle() -> None:
    found = simulated()
    assert found["duration_s"] == pytest.approx(6 * found["e2e_s"]["mean"], rel=1e-6)
    assert found["busy_share"] == pytest.approx(1, abs=0.01)


def test_a_pause_that_is_asked_for_is_drawn_alike_in_both() -> None:
    records = measured("--jitter-s", "100ms").records
    ends_s = [0.0, *(record.sent_s + record.closed_s for record in records)]
    pauses_s = [record.scheduled_s - end_s for record, end_s in zip(records, ends_s, strict=False)]
    assert all(0 < pause_s < 0.1 for pause_s in pauses_s)
    assert all(a != b for a, b in pairwise(pauses_s))
    idle_s = simulated("--jitter-s", "100ms")["duration_s"] - simulated()["duration_s"]
    # A simulation's time begins with the first arrival, so the first pause is in no duration.
    assert idle_s == pytest.approx(sum(pauses_s[1:]), abs=1e-6)
