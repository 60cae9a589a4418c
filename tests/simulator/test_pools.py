"""Pools of unlike replicas."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.simulate import simulate
from headway.simulator.fleet import FleetConfig
from headway.simulator.pools import Pool
from headway.workload.call import Workload, WorkloadError

from .drive import PlainTime, config, lone, run, run_fleet
from .strategies import workloads

EXAMPLES = settings(max_examples=40, deadline=None)
ROUTERS = ("round-robin", "least-work", "session", "prefix")
SLOW = PlainTime(base_ns=4_000_000, token_ns=4000, attended_ns=40)


@given(workloads(), st.sampled_from(ROUTERS))
@EXAMPLES
def test_two_pools_of_like_replicas_are_one(workload: Workload, router: str) -> None:
    apart = FleetConfig((Pool(2, config(), PlainTime()), Pool(1, config(), PlainTime())), router)
    assert run_fleet(workload, apart).times() == run(workload, replicas=3, router=router).times()


@given(workloads(), st.sampled_from(ROUTERS))
@EXAMPLES
def test_receipts_add_up_in_each_pool(workload: Workload, router: str) -> None:
    pools = (Pool(1, config(48), PlainTime()), Pool(2, config(200, max_running=3, max_context=192), SLOW))
    outcome = run_fleet(workload, FleetConfig(pools, router), check=True)
    charged: Counter[int] = Counter()
    for record in outcome.records:
        charged.update(dict(record.charged_ns))
    for number in range(len(pools)):
        executors = [backend.replica.executor for backend in outcome.fleet.of_pool(number)]
        assert charged[number] == sum(e.device_ns + e.host_ns for e in executors)


def test_least_work_weighs_by_speed() -> None:
    """Four times as fast, it gets about four times as much."""
    fast, slow = PlainTime(base_ns=1, token_ns=1_000_000, gap_ns=0), PlainTime(base_ns=4, token_ns=4_000_000, gap_ns=0)
    pools = (Pool(1, config(200), slow), Pool(1, config(200), fast))
    calls = [(0.001 * i, 32, 1) for i in range(100)]
    records = run_fleet(lone(*calls), FleetConfig(pools, "least-work")).records
    shares = Counter(record.replica for record in records)
    assert shares[1] == pytest.approx(4 * shares[0], rel=0.15)


def test_blocks_of_two_sizes_do_not_go_together() -> None:
    with pytest.raises(WorkloadError, match="one block_size, not 4, 8"):
        FleetConfig((Pool(1, config(), PlainTime()), Pool(1, config(block_size=8), PlainTime())))


# The command


def called(*arguments: str):
    return CliRunner().invoke(simulate, arguments)


def answer(*arguments: str):
    result = called(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


POOLS = ("--pool", "replicas=2,system=hgx-h100", "--pool", "system=hgx-b200,tensor=2,max-running=64,weights=fp8")


def test_chips_joules_and_dollars_are_told_by_pool_and_together(tmp_path: Path) -> None:
    out = tmp_path / "calls.parquet"
    found = answer("--requests", "60", "--rate", "50", "--out", str(out), *POOLS)
    h100, b200 = found["pools"]
    assert (found["chips"], found["replicas"], h100["chips"], b200["chips"]) == (4, 3, 2, 2)
    for figure in ("energy_j", "cost_usd", "charged_usd", "busy_s", "steps"):
        assert found[figure] == pytest.approx(h100[figure] + b200[figure])
    table = pq.read_table(out).to_pydict()
    assert sum(table["cost_usd"]) == pytest.approx(found["charged_usd"])
    assert sum(table["energy_j"]) == pytest.approx(found["energy_j"])


def test_a_pool_takes_what_it_does_not_say_from_the_main_options() -> None:
    few = ("--requests", "20", "--replicas", "2", "--system", "hgx-h200")
    plain, pooled = answer(*few), answer(*few, "--pool", "max-running=256")
    assert {**plain, "pools": 0} == {**pooled, "pools": 0}


def test_ttft_and_tpot_are_told_by_pool(tmp_path: Path) -> None:
    """Of split pools, the first token is of the one that prefilled."""
    out = tmp_path / "calls.parquet"
    found = answer("--requests", "60", "--rate", "50", "--out", str(out), *POOLS)
    calls = pq.read_table(out).to_pylist()
    for pool, replicas in zip(found["pools"], ((0, 1), (2,)), strict=True):
        own = [call for call in calls if call["replica"] in replicas]
        for name in ("ttft_s", "tpot_s"):
            assert pool[name]["mean"] == pytest.approx(sum(call[name] for call in own) / len(own))
    prefill, decode = answer("--pool", "role=prefill", "--pool", "role=decode")["pools"]
    assert prefill["ttft_s"]["p50"] > 0 < decode["tpot_s"]["p50"]
    assert prefill["tpot_s"]["p50"] is None is decode["ttft_s"]["p50"]
    (only,) = answer()["pools"]
    assert only["ttft_s"] is None is only["tpot_s"]


def test_what_is_assumed_of_each_pools_model_is_said() -> None:
    """As `headway plan` says it, so not of a format that somebody chose."""
    found = answer("--pool", "model=gpt-oss-20b", "--pool", "model=gpt-oss-20b,weights=fp8", "--pool", "model=qwen3-8b")
    narrow, text = found["assumptions"]
    assert narrow.startswith("mxfp4 is multiplied at the chip's 4-bit rate")
    assert text.startswith("gpt-oss-20b: the model's file says that its weights are quantised (quant_method mxfp4)")
    assert f"assuming: {text}" in called("--pool", "model=gpt-oss-20b").output
    assert answer()["assumptions"] == []


def test_the_text_names_pools() -> None:
    text = called("--requests", "5", *POOLS).output
    assert "on 2 x 1 h100-sxm and 1 x 2 b200-sxm" in text
    assert text.count("  pool  ") == 2


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("replicas", "'replicas' is not FIELD=VALUE with one of role, region, serves, replicas, model, system"),
        ("colour=red", "'colour=red' is not FIELD=VALUE"),
        ("replicas=0", "replicas: 0 is not in the range 1<=x<=4096"),
        ("replicas=two", "replicas: 'two' is not a valid integer range"),
        ("tensor=1,tensor=2", "tensor is there twice"),
        ("system=hgx-h1000", "hgx-h1000"),
        ("reservation=none", "reservation: 'none' is not one of"),
    ],
)
def test_a_bad_pool_gets_one_line(pool: str, said: str) -> None:
    result = called("--requests", "5", "--pool", pool)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())
