"""A measured run is set against a simulation of the same requests, or the table says what differs."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from rich.console import Console

from headway.bench.run import Run
from headway.bench.slo import Slo
from headway.bench.summary import summarise
from headway.cli.preconditions import given_options
from headway.cli.simulate import simulate
from headway.cli.workload_options import WorkloadChoice, workload_options
from headway.report.agreement import same_model
from headway.report.cases import Case, case_of
from headway.report.page import page
from headway.report.simulated import read_simulated
from headway.report.tables import Table, error_tables, unlike
from headway.report.terminal import print_cases
from tests.bench.asking import ENDPOINT, drive
from tests.bench.scripted import Script, Server, answer, body, text, usage

MODEL = "smollm2-135m"
SIX = ("--requests", "6", "--input-tokens", "60", "--output-tokens", "3")


def chosen(*arguments: str, concurrency: int | None = None) -> WorkloadChoice:
    found: list[WorkloadChoice] = []

    @click.command()
    @workload_options
    def command(**options: Any) -> None:
        found.append(WorkloadChoice.taken(options | {"concurrency": concurrency}, given_options()))

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return found[0]


def measured(
    *arguments: str, concurrency: int = 2, label: str = "mine", script: Script | None = None, **changes: Any
) -> Case:
    made = chosen(*SIX, *arguments, concurrency=concurrency)
    replies = Server(lambda _: script or answer(0.5, [0.25, 0.25]))
    records = drive(made.make(concurrency, None), replies).records
    slo = Slo(ttft_s=2.0)
    run = Run(
        label=label,
        started_at="2026-01-01T00:00:00+00:00",
        url="http://test/v1",
        endpoint=replace(ENDPOINT, model="HuggingFaceTB/SmolLM2-135M-Instruct"),
        workload={"name": "synthetic", "hash_block_size": 0} | made.described() | {"concurrency": concurrency},
        load={"concurrency": concurrency, "think": 1.0, "duration_s": None, "max_open": 20_000},
        prompts={},
        client={},
        slo=slo,
        summary=summarise(records, [0.001], slo),
    )
    return case_of(replace(run, **changes), records)


def simulated(tmp_path: Path, *arguments: str, without: str = "") -> list[Case]:
    fleet = ("--model", MODEL, "--system", "hgx-h100", "--concurrency", "2", "--json")
    result = CliRunner().invoke(simulate, [*SIX, *fleet, *arguments])
    assert result.exit_code == 0, result.output
    kept = {key: value for key, value in json.loads(result.stdout).items() if key != without}
    path = tmp_path / "simulated.json"
    path.write_text(json.dumps(kept))
    return read_simulated(path)


def beside(case: Case, simulations: list[Case]) -> Table:
    (table,) = error_tables([case, *simulations])
    return table


def test_the_same_requests_give_an_error(tmp_path: Path) -> None:
    table = beside(measured(), simulated(tmp_path))
    assert (table.header[-1], table.warning) == ("error", "")
    assert "not known" not in table.note


@pytest.mark.parametrize(
    ("arguments", "differs"),
    [
        (("--seed", "1"), "seed (measured 0, simulated 1)"),
        (("--requests", "7"), "requests (measured 6, simulated 7)"),
        (("--input-tokens", "61"), "input tokens (measured 60, simulated 61)"),
        (("--output-tokens", "4-9"), "output tokens (measured 3, simulated 4-9)"),
        (("--jitter-s", "1"), "jitter s (measured 0.0, simulated 1.0)"),
        (("--prefix-tokens", "64"), "prefix tokens (measured none, simulated 64)"),
        (("--model", "llama-3.1-8b"), "model (measured HuggingFaceTB/SmolLM2-135M-Instruct, simulated llama-3.1-8b)"),
        (
            ("--seed", "1", "--requests", "7"),
            "requests (measured 6, simulated 7), seed (measured 0, simulated 1)",
        ),
    ],
)
def test_other_requests_are_named_and_give_no_error(tmp_path: Path, arguments: tuple[str, ...], differs: str) -> None:
    case, simulations = measured(), simulated(tmp_path, *arguments)
    table = beside(case, simulations)
    assert table.warning == f"other requests: {differs}; so this is no error of the prediction"
    assert table.header[-1] == "difference"
    assert not [cell for row in table.rows for cell in row if cell.tone == "good" or cell.small == "within"]
    console = Console(file=StringIO(), width=400, color_system=None)
    print_cases([case, *simulations], console)
    assert table.warning in console.file.getvalue()  # type: ignore[attr-defined]
    assert f'<p class="warning">{table.warning}</p>' in page([case, *simulations], "t")


def test_another_load_and_another_pace_are_other_requests(tmp_path: Path) -> None:
    assert "concurrency (measured 4, simulated 2)" in beside(measured(concurrency=4), simulated(tmp_path)).warning
    paced = measured(load={"concurrency": 2, "think": 2.0, "duration_s": 9.0, "max_open": 20_000})
    warning = beside(paced, simulated(tmp_path)).warning
    assert "think (measured 2.0, simulated 1.0), duration s (measured 9.0, simulated none)" in warning


def test_lengths_that_options_do_not_tell_are_seen_in_the_totals(tmp_path: Path) -> None:
    """A simulation that keeps no options, as of another version."""
    table = beside(measured(), simulated(tmp_path, "--input-tokens", "61", without="workload_options"))
    assert "prompt tokens (measured 360, simulated 366)" in table.warning
    table = beside(measured(), simulated(tmp_path, without="workload_options"))
    assert table.warning == ""
    assert "the simulation does not tell arrivals and lengths" in table.note


def test_what_is_no_result_gives_no_error(tmp_path: Path) -> None:
    table = beside(measured(objections=["late"]), simulated(tmp_path))
    assert table.header[-1] == "difference"
    assert table.warning == "what was measured is no result; so this is no error of the prediction"


def test_answers_that_ended_early_are_other_requests(tmp_path: Path) -> None:
    early = measured(script=body(text(" a"), text(" b", "stop"), usage(60, 2)))
    assert "output tokens (measured 12, simulated 18)" in beside(early, simulated(tmp_path)).warning


def test_goodput_of_another_slo_is_left_out(tmp_path: Path) -> None:
    same = beside(measured(), simulated(tmp_path, "--slo-ttft", "2"))
    other = beside(measured(), simulated(tmp_path, "--slo-ttft", "1ms"))
    goodput = [[row[0].text for row in table.rows if row[0].text == "goodput"] for table in (same, other)]
    assert goodput == [["goodput"], []]
    assert "goodput is left out: within ttft <= 2 s measured, ttft <= 1 ms simulated" in other.note


def test_runs_of_other_requests_are_told_apart_whatever_their_load() -> None:
    assert unlike([measured(), measured(concurrency=4)]) == ""
    found = unlike([measured(), measured("--input-tokens", "90", label="peer")])
    assert found == "the runs are of different requests: input tokens (60: mine; 90: peer)"


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m", True),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b", True),
        ("SmolLM2-135M", "smollm2-1.7b", False),
        ("llama-3.1-70b", "llama-3.1-8b", False),
        ("", "llama-3.1-8b", False),
    ],
)
def test_a_model_is_the_same_by_what_its_names_share(ours: str, theirs: str, same: bool) -> None:
    assert same_model(ours, theirs) is same


def test_only_options_that_are_read_are_described(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 20, "output_length": 5, "hash_ids": []}\n')
    assert chosen("--trace", str(trace)).described().keys() == {"trace", "trace_sha256", "seed"}
    assert chosen("--requests", "3").described() == {
        "requests": 3,
        "input_tokens": "512",
        "output_tokens": "128",
        "prefix_tokens": 0,
        "arrivals": "poisson",
        "seed": 0,
    }
    assert chosen("--agents", "tracelab", concurrency=1).described().keys() == {
        "agents",
        "sessions",
        "sub_agents",
        "seed",
    }
    lone = {"requests", "input_tokens", "output_tokens", "prefix_tokens", "jitter_s", "seed"}
    assert chosen(concurrency=1).described().keys() == lone
    assert chosen(concurrency=1).described()["requests"] == 100
