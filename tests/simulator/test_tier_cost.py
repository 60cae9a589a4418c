"""Tiers in a run's dollars: in its cost, in USD a million tokens, in a sweep's table, and in no receipt."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from headway.catalog import load_catalog
from headway.cli.simulate import simulate
from headway.simulator.pool_use import PoolUse
from headway.simulator.price import Price

from .drive import lone, run

SMALL = (
    "--agents",
    "coding_agent",
    "--sessions",
    "3",
    "--requests",
    "40",
    "--concurrency",
    "3",
    "--num-blocks",
    "9000",
)
TIERS = ("--kv-tier", "dram=100GB", "--kv-tier", "ssd=1TB")
LIFE_HOURS = 4 * 8766


def called(*arguments: str):
    result = CliRunner().invoke(simulate, [*SMALL, *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_cost_is_that_of_chips_and_tiers(tmp_path: Path) -> None:
    out = tmp_path / "calls.parquet"
    found = json.loads(called(*TIERS, "--replicas", "2", "--out", str(out), "--json"))
    catalog = load_catalog()
    dram, ssd = (catalog.tiers[name].usd_per_byte or 0.0 for name in ("dram", "ssd"))
    hours = 2 * found["duration_s"] / 3600
    chip_usd_per_hour = catalog.system("hgx-h100").chip.rent_usd_per_hour or 0.0
    assert found["chip_usd"] == pytest.approx(hours * chip_usd_per_hour)
    assert found["tier_usd"] == pytest.approx(hours * (dram * 100e9 + ssd * 1e12) / LIFE_HOURS)
    assert found["tier_usd"] == pytest.approx(sum(use["cost_usd"] for use in found["kv"][1:]))
    assert found["cost_usd"] == pytest.approx(found["chip_usd"] + found["tier_usd"])
    assert found["usd_per_mtok_output"] == pytest.approx(found["cost_usd"] / found["output_tokens"] * 1e6)
    assert found["tier_usd_per_mtok_output"] == pytest.approx(found["tier_usd"] / found["output_tokens"] * 1e6)
    (pool,) = found["pools"]
    assert [pool[name] for name in ("cost_usd", "chip_usd", "tier_usd")] == [
        pytest.approx(found[name]) for name in ("cost_usd", "chip_usd", "tier_usd")
    ]
    assert found["charged_usd"] == pytest.approx(found["busy_s"] / 3600 * chip_usd_per_hour)
    assert sum(pq.read_table(out)["cost_usd"].to_pylist()) == pytest.approx(found["charged_usd"])


def test_without_tiers_all_of_it_is_the_chips() -> None:
    found = json.loads(called("--json"))
    assert (found["tier_usd"], found["loaded_share"]) == (0, {})
    assert found["cost_usd"] == found["chip_usd"] > 0


def test_what_came_back_is_told_as_a_share_of_prompts() -> None:
    found = json.loads(called(*TIERS, "--kv-ttl", "1min", "--json"))
    shares = {use["memory"]: use["loaded_tokens"] / found["input_tokens"] for use in found["kv"][1:]}
    assert found["loaded_share"] == shares
    assert 0 < shares["dram"] < found["hit_rate"]


def test_a_tier_without_a_price_leaves_the_sum_unknown_and_the_chips_known() -> None:
    executors = [replica.executor for replica in run(lone((0, 8, 4))).fleet.replicas]
    unknown = PoolUse("chip", 1, Price(None, 3600.0), executors, tier_usd_per_hour=None).summary(10.0, 0)
    assert (unknown.chip_usd, unknown.tier_usd, unknown.cost_usd) == (10.0, None, None)
    assert "unknown: chips" in called("--kv-tier", "hbf")


def test_the_text_says_what_of_it_is_memory() -> None:
    text = called(*TIERS)
    assert " USD (chips " in text
    assert "cost: all chips and tiers, all the time" in text
    assert "(chips" not in called()


def test_a_sweeps_table_has_hits_by_tier_and_their_dollars() -> None:
    head, without, small, *_ = called(
        "--kv-ttl", "1min", "--jobs", "1", "--sweep", "kv-tier=default;dram=100GB", "--requests", "40"
    ).splitlines()
    assert "cache hits  from dram  USD/Mtok  tiers' part" in head
    found = json.loads(called("--kv-ttl", "1min", "--kv-tier", "dram=100GB", "--json"))
    assert f"{found['loaded_share']['dram']:.1%}" in small
    assert without.split()[-4] == "-"
    assert float(without.split()[-2]) == 0 < float(small.split()[-2])
    plain = called("--jobs", "1", "--sweep", "replicas=1,2").splitlines()[0]
    assert "from" not in plain
    assert "tiers" not in plain
