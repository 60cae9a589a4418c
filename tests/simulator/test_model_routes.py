"""Calls go to pools that serve the model that they ask for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.cli import main
from headway.simulator.fleet import FleetConfig
from headway.simulator.model_routes import ModelRoutes
from headway.simulator.pools import Pool
from headway.workload.call import Call, Workload, WorkloadError

from .drive import PlainTime, config, run_fleet

NAMES = ["large-1", "small-2", "", "small-1", "other"]


def workload() -> Workload:
    return Workload("models", [(Call(str(i), 9, 3, arrival_s=i * 0.01, model=name),) for i, name in enumerate(NAMES)])


def pools(*serves: str) -> tuple[Pool, ...]:
    return tuple(Pool(1, config(), PlainTime(), serves=pattern) for pattern in serves)


def test_a_pattern_claims_its_models_and_the_rest_goes_where_none_is_claimed() -> None:
    outcome = run_fleet(workload(), FleetConfig(pools("large-*", "small-*", "")))
    assert {r.call.model: r.replica for r in outcome.records} == {
        "large-1": 0, "small-1": 1, "small-2": 1, "": 2, "other": 2,
    }  # fmt: skip


def test_the_first_pattern_that_fits_is_taken() -> None:
    routes = ModelRoutes(["small-*", "small-1", ""])
    assert routes.of(Call("a", 1, 1, model="small-1")) == "small-*"


@pytest.mark.parametrize(("name", "words"), [("big", "call a asks for 'big'"), ("", "call a names no model")])
def test_a_model_that_nobody_serves_is_one_line(name: str, words: str) -> None:
    with pytest.raises(WorkloadError, match=f"{words}, and pools serve small-.* only"):
        ModelRoutes(["small-*"]).of(Call("a", 1, 1, model=name))


def test_on_the_command_line(tmp_path: Path) -> None:
    calls = [{"t": i, "m": ["opus", "haiku"][i % 2], "in": 200, "out": 5, "h": [1, 3], "api": 0.1} for i in range(6)]
    trace = tmp_path / "sessions.jsonl.gz"
    trace.write_bytes(gzip.compress(json.dumps({"id": "s", "bs": 64, "r": calls}).encode() + b"\n"))
    arguments = ["simulate", "--trace", str(trace), "--json", "--pool", "serves=op*,model=llama-3.1-70b,tensor=4"]
    done = CliRunner().invoke(main, [*arguments, "--pool", "model=llama-3.1-8b"])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["finished"], summary["chips"]) == (6, 5)
    assert all(pool["steps"] > 0 for pool in summary["pools"])
    assert "for op*" in summary["fleet"]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert refused.stderr == "headway: call s.1 asks for 'haiku', and pools serve op* only\n"
