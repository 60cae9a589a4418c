"""Clients and replicas in several regions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.simulate import simulate
from headway.simulator.faults import Fault
from headway.simulator.fleet import FleetConfig
from headway.simulator.pools import Pool
from headway.simulator.regions import Regions
from headway.workload.call import Call, Workload, WorkloadError

from .drive import MS, PlainTime, config, lone, run_fleet
from .strategies import workloads
from .test_handover import FLAT, split

EXAMPLES = settings(max_examples=40, deadline=None)
WAYS = {frozenset(("here", "there")): 0.04}


def fleet(regions: Regions, time: PlainTime = FLAT, late_blocks: bool = True, **changes: object) -> FleetConfig:
    scheduler = config(200, late_blocks=late_blocks, **changes)
    pools = (Pool(1, scheduler, time, region="here"), Pool(1, scheduler, time, region="there"))
    return FleetConfig(pools, "least-work", jumps=late_blocks, regions=regions)


def here(spill: float = 1.0) -> Regions:
    return Regions((("here", 1.0),), WAYS, spill)


@given(workloads(), st.sampled_from([0.2, 1.0]), st.booleans())
@EXAMPLES
def test_calls_are_conserved_and_jumps_change_nothing(workload: Workload, spill: float, fails: bool) -> None:
    regions = Regions((("here", 0.7), ("there", 0.3)), WAYS, spill, seed=5)
    faults = (Fault("replica", 0.0137, 0.05, 0),) if fails else ()
    one, other = (
        run_fleet(workload, replace(fleet(regions, PlainTime(), late), faults=faults)) for late in (False, True)
    )
    assert one.times() == other.times()
    assert sorted(r.call.id for r in one.records) == sorted(c.id for session in workload.sessions for c in session)
    for r in one.records:
        parts_ns = r.receipt.queue_ns + r.receipt.prefill_ns + r.receipt.decode_ns
        assert r.refused or parts_ns + 2 * r.way_ns == r.e2e_ns


def test_a_call_goes_to_the_nearest_region_and_spills_over_when_that_is_full() -> None:
    calls = [(0.0001 * i, 4, 30) for i in range(6)]
    near = run_fleet(lone(*calls), fleet(here(), max_running=8)).records
    assert {(r.replica, r.way_ns) for r in near} == {(0, 0)}
    spilt = run_fleet(lone(*calls), fleet(here(0.5), max_running=8)).records
    assert Counter((r.replica, r.way_ns) for r in spilt) == {(0, 0): 4, (1, 20 * MS): 2}
    assert {r.ttft_ns >= 41 * MS for r in spilt if r.replica} == {True}


def test_a_region_without_a_replica_that_is_up_gets_no_new_calls() -> None:
    down = replace(fleet(here()), faults=(Fault("replica", 0.005, 1.0, 0),))
    records = run_fleet(lone((0.0, 4, 2), (0.01, 4, 2)), down).records
    assert [r.replica for r in records] == [0, 1]


def test_a_call_waits_where_a_replica_for_its_model_comes_back() -> None:
    """The nearest region has none for it, or none but one that is lost for good."""
    workload = Workload("models", [(Call("a", 4, 2, arrival_s=0.01, model="large"),)])
    pools = fleet(here()).pools
    large = replace(pools[1], serves="large")
    lost = (Fault("replica", 0.0, None, 2), Fault("replica", 0.0, 1.0, 3))
    elsewhere = replace(fleet(here()), pools=(*pools, large), faults=(Fault("replica", 0.0, 1.0, 2),))
    for apart in (elsewhere, replace(elsewhere, pools=(*pools, replace(large, region="here"), large), faults=lost)):
        (record,) = run_fleet(workload, apart).records
        assert (record.reason, record.replica, record.way_ns) == ("stop", len(apart.pools) - 1, 20 * MS)
        assert record.ttft_ns > 990 * MS


@pytest.mark.parametrize("for_s", [None, 1.0])
def test_a_region_whose_decoders_are_down_gets_no_new_calls(for_s: float | None) -> None:
    halves = split(time=FLAT)
    near = tuple(replace(pool, region="here") for pool in halves.pools)
    far = Pool(1, halves.pools[0].scheduler, FLAT, region="there")
    apart = replace(halves, pools=(*near, far), regions=here(), faults=(Fault("replica", 0.005, for_s, 1),))
    records = run_fleet(lone((0.0, 4, 2), (0.01, 4, 2)), apart).records
    assert {r.call.id: (r.reason, r.replica) for r in records} == {"0": ("stop", 1), "1": ("stop", 2)}


def test_sessions_are_shared_out_as_asked_whatever_else_is_drawn() -> None:
    draw = Regions((("a", 3.0), ("b", 1.0)), seed=1).draws()
    drawn = Counter(draw() for _ in range(4000))
    assert drawn["b"] / 4000 == pytest.approx(0.25, abs=0.03)
    again = Regions((("a", 3.0), ("b", 1.0)), seed=1).draws()
    assert Counter(again() for _ in range(4000)) == drawn


def test_distances_and_clients_must_be_said() -> None:
    with pytest.raises(WorkloadError, match="how far is here from there"):
        run_fleet(lone((0, 4, 4)), fleet(Regions((("here", 1.0),))))
    with pytest.raises(WorkloadError, match="not said where clients are"):
        replace(fleet(here()), regions=None)
    with pytest.raises(WorkloadError, match="positive share"):
        Regions((("here", 0.0),))


# The command

POOLS = ("--pool", "region=seoul", "--pool", "replicas=2,region=oregon")
CLIENTS = ("--clients", "seoul=0.7,oregon=0.3", "--way", "seoul-oregon=137ms")


def called(*arguments: str):
    return CliRunner().invoke(simulate, ("--requests", "60", "--rate", "30", *arguments))


def test_ttft_includes_the_way() -> None:
    found = json.loads(called(*POOLS, *CLIENTS, "--json").output)
    assert found["finished"] == 60
    assert found["ttft_s"]["max"] < 0.1, "each region has room"
    assert [pool["name"] for pool in found["pools"]] == ["hgx-h100 in seoul", "hgx-h100 in oregon"]
    far = json.loads(called("--pool", "region=oregon", *CLIENTS, "--json").output)
    assert far["ttft_s"]["p50"] > 0.137
    assert "1 x 1 h100-sxm in seoul" in called(*POOLS, *CLIENTS).output


def test_names_of_regions_may_have_dashes() -> None:
    pools = (
        "--pool",
        "region=us-east",
        "--pool",
        "region=eu-west",
        "--clients",
        "eu-west=1,us-east=1",
        "--spill",
        "0.004",
    )
    found = called(*pools, "--way", "us-east-eu-west=90ms", "--json")
    assert json.loads(found.output)["ttft_s"]["max"] > 0.09
    both = called(*pools, "--pool", "region=us", "--pool", "region=east-eu-west", "--way", "us-east-eu-west=90ms")
    assert "it is not A-B=TIME of two regions" in both.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (POOLS, "it is not said where clients are (--clients)"),
        ((*POOLS, "--clients", "seoul=1"), "how far is seoul from oregon? --way seoul-oregon=SECONDS"),
        ((*POOLS, "--clients", "seoul"), "'seoul' is not REGION=SHARE"),
        ((*POOLS, "--clients", "seoul=1,seoul=2"), "each region once"),
        ((*POOLS, *CLIENTS, "--way", "seoul=1"), "it is not A-B=TIME of two regions"),
        ((*POOLS, *CLIENTS, "--way", "seoul-seoul=1"), "it is not A-B=TIME of two regions"),
        ((*POOLS, *CLIENTS, "--way", "seoul-paris=1"), "'paris' is no region of --clients or of a --pool"),
        ((*POOLS, *CLIENTS, "--way", "seoul-oregon=fast"), "'fast' is not a time"),
        ((*POOLS, *CLIENTS, "--round-trip", "1s"), "--round-trip: not with --clients"),
        ((*POOLS, *CLIENTS, "--way", "oregon-seoul=1"), "--way: each pair of regions once"),
        (("--way", "a-b=1"), "--way: only with --clients"),
        (("--spill", "2"), "--spill: only with --clients"),
        (CLIENTS, "each pool needs a region too"),
    ],
)
def test_bad_options_get_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = called(*arguments)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())
