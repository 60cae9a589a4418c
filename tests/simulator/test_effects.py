"""The textbook effects of docs/effects: each has its sign in a small run, its page and its chart."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from headway.simulator.sweep import here

DOCS = Path(__file__).parents[2] / "docs"


def _effects() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    return importlib.import_module("effects")


EFFECTS = _effects()
FLEETS = importlib.import_module("effect_fleets")
Row = dict[str, Any]
FIRST, LPUS = "8 x B200", "8 x B200, feed-forward on 256 x LP30"


def column(rows: list[Row], key: str, **where: Any) -> list[Any]:
    return [row[key] for row in rows if all(row[name] == value for name, value in where.items())]


def run(name: str, size: float) -> list[Row]:
    rows: list[Row] = EFFECTS.EFFECTS[name](size).rows
    return rows


def test_unequal_answers_leave_seats_of_a_static_batch_empty() -> None:
    rows = run("batching", 0.2)
    static, continuous = (column(rows, "tokens_per_s", batching=kind) for kind in ("static", "continuous"))
    assert static[0] == continuous[0]
    assert all(a < b for a, b in zip(static[1:], continuous[1:], strict=True))
    for used, expected in zip(
        column(rows, "seats_used", batching="static"), column(rows, "expected", batching="static"), strict=True
    ):
        assert used == pytest.approx(expected, rel=0.2)


def test_memory_reserved_for_the_worst_case_makes_the_batch_small() -> None:
    rows = run("reservation", 0.1)
    worst = column(rows, "tokens_per_s", reservation="worst_case")
    assert all(a > b for a, b in pairwise(worst))
    assert len(set(column(rows, "tokens_per_s", reservation="demand"))) == 1
    assert max(worst) < column(rows, "tokens_per_s", reservation="demand")[0]
    last = rows[-1]
    assert 0.75 * last["expected"] < last["running"] <= last["expected"]


def test_chunks_move_the_slowest_gaps_against_the_first_token() -> None:
    rows = run("chunking", 0.1)
    assert all(a < b for a, b in pairwise(column(rows, "itl_p99_s")[:6]))
    assert all(a > b for a, b in pairwise(column(rows, "ttft_p50_s")[:3]))
    for row in rows[3:6]:
        assert row["itl_p99_s"] == pytest.approx(row["expected_s"], rel=0.1)


def test_users_cost_each_other_speed_and_share_the_weights() -> None:
    rows = run("frontier", 0.15)
    for system in ("hgx-h100", "hgx-b200"):
        speeds = column(rows, "interactivity", system=system)
        assert all(a > b for a, b in pairwise(speeds))
        assert speeds[0] == pytest.approx(column(rows, "expected", system=system)[0], rel=0.03)
        assert all(a < b for a, b in pairwise(column(rows, "tokens_per_s_per_chip", system=system)[:5]))


def test_a_chip_without_hbm_is_fast_for_one_and_dear_for_many() -> None:
    rows = run("sram", 0.3)
    gpus = [row for row in rows if "LP30" not in row["machine"]]
    assert min(column(rows, "interactivity", machine="32 x LP30")) > max(row["interactivity"] for row in gpus)
    assert max(column(rows, "tokens_per_s_per_chip", machine="32 x LP30")) < 2000
    assert all(row["tokens_per_s_per_chip"] > 5000 for row in gpus if row["users"] == 256)


def test_an_unbounded_queue_loses_goodput_above_capacity() -> None:
    rows = run("overload", 0.4)
    unbounded, bounded = (column(rows, "goodput_per_s", queue=queue) for queue in (None, 32))
    assert unbounded[:3] == bounded[:3]
    assert unbounded[-1] < 0.7 * bounded[-1]
    assert column(rows, "refused", queue=32)[-1] > 0.05


def test_more_seats_than_memory_make_gaps_and_no_throughput() -> None:
    rows = run("preemption", 0.3)
    few, many = rows[1], rows[-1]
    assert few["preempted"] == 0 < many["preempted"]
    assert few["itl_max_s"] < 0.1 < 1 < many["itl_max_s"]
    assert many["tokens_per_s"] < 1.1 * rows[-2]["tokens_per_s"]


def test_affinity_finds_a_sessions_prefix_and_a_prefix_router_anyones() -> None:
    rows = run("routing", 0.15)
    agents = {row["router"]: row["hit_rate"] for row in rows if row["workload"] == "agents"}
    prompts = {row["router"]: row["hit_rate"] for row in rows if row["workload"] == "shared prompts"}
    assert agents["session"] > agents["round-robin"] + 0.05
    assert agents["prefix"] > agents["round-robin"] + 0.05
    assert prompts["prefix"] > 1.2 * max(prompts["session"], prompts["round-robin"])


def test_tiers_save_computing_and_the_first_saves_most() -> None:
    rows = run("tiers", 0.15)
    computed = column(rows, "computed")
    assert computed == sorted(computed, reverse=True)
    assert computed[-1] < 0.95 * computed[0]
    assert rows[0]["loaded"] == 0 < rows[-1]["loaded"]


def test_the_longer_kv_stays_the_more_is_found_and_held() -> None:
    rows = run("retention", 0.15)
    for agents in ("coding_agent", "tracelab"):
        for key in ("found", "held"):
            values = column(rows, key, agents=agents)[:-1]
            assert values == sorted(values)
    assert column(rows, "found", agents="coding_agent", ttl="5 min")[0] == pytest.approx(0.941, abs=0.03)
    assert column(rows, "found", agents="coding_agent", ttl="1 h")[0] == pytest.approx(0.996, abs=0.015)
    costs = column(rows, "usd", agents="coding_agent")[:-1]
    assert 0 < costs.index(min(costs)) < 4


def test_a_split_replica_is_for_many_users() -> None:
    rows = run("split", 0.25)
    whole, lpus = (column(rows, "tokens_per_s", chips=name) for name in (FIRST, LPUS))
    assert whole[0] > lpus[0]
    assert whole[-1] < lpus[-1]


def test_small_fleets_and_slow_links_are_not_for_pools() -> None:
    def share(lengths: str, replicas: int, fleet: str, rate: float, seconds: float) -> float:
        at = {"lengths": lengths, "replicas": replicas, "fleet": fleet}
        return float(FLEETS.fleet_at_rate(at, rate * replicas, seconds).goodput_share)

    long, short = FLEETS.LENGTHS
    assert share(short, 2, "mixed", 12, 15) > 0.9
    assert share(short, 2, "split, 50 GB/s", 12, 15) < 0.5
    assert share(short, 8, "split, 50 GB/s", 12, 8) > 0.9
    assert share(long, 8, "split, 50 GB/s", 3, 8) > 0.9
    assert share(long, 8, "split, 1.25 GB/s", 3, 4) < 0.1


def test_a_failure_is_felt_where_the_rest_cannot_carry_the_load() -> None:
    calm, spared, felt = (
        FLEETS.around_failure({"rate": rate, "fails": fails}, 0.5)
        for rate, fails in ((60, False), (40, True), (60, True))
    )
    assert max(calm["ttft_p99_s"], spared["ttft_p99_s"]) < 0.5 < 1 < felt["ttft_p99_s"]
    assert felt["computed"] > calm["computed"]


def test_every_effect_has_its_page_and_chart() -> None:
    index = (DOCS / "effects/README.md").read_text()
    pages = {page.stem for page in (DOCS / "effects").glob("*.md")} - {"README"}
    assert pages == set(EFFECTS.EFFECTS)
    for name in pages:
        page = (DOCS / f"effects/{name}.md").read_text()
        assert f"({name}.md)" in index
        assert f"({name}.svg)" in page
        assert f"python docs/effects.py {name}\n" in page


def test_a_page_says_what_its_command_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("effect_runs.Processes", lambda _: here)
    assert EFFECTS.pages.is_fresh("batching", EFFECTS.batching(1.0)), "run: python docs/effects.py"
    result = CliRunner().invoke(EFFECTS.main, ["--check", "baching"])
    assert result.exit_code == 2
    assert "'baching' is not one of 'batching', 'reservation'" in result.output
    shown = CliRunner().invoke(EFFECTS.main, ["--help"])
    assert shown.exit_code == 0
    assert "--check" in shown.output
