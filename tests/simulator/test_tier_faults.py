"""Links to tiers fail and come back: requests compute instead, no block is leaked, what a tier holds stays there."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.simulate import simulate
from headway.scheduler.contract import DEVICE, Load, Save, ints
from headway.simulator.faults import Fault
from headway.simulator.fleet import FleetConfig
from headway.simulator.links import TierLinks
from headway.simulator.pools import Pool
from headway.simulator.tier_memory import TierMemory
from headway.simulator.world import World
from headway.workload.call import Call, Workload, WorkloadError

from .drive import KV_BLOCK_BYTES, MS, Outcome, PlainTime, config, lone, run_fleet
from .strategies import TIERS, workloads
from .test_tiers import ANSWER, DRAM, NUM_BLOCKS, PROMPT, two_turns

EXAMPLES = settings(max_examples=60, deadline=None)
PLAIN = PlainTime(attended_ns=0, gap_ns=0)


def tiered(tiers: tuple[TierMemory, ...], *faults: Fault, replicas: int = 1, **changes: object) -> FleetConfig:
    num_blocks = changes.pop("num_blocks", NUM_BLOCKS)
    scheduler = config(num_blocks, tiers=tuple(tier.tier(KV_BLOCK_BYTES) for tier in tiers), **changes)  # type: ignore[arg-type]
    return FleetConfig((Pool(replicas, scheduler, PLAIN, tiers, KV_BLOCK_BYTES),), faults=faults)


@st.composite
def fleets(draw, jumps: bool = True) -> FleetConfig:
    """One to three replicas with one tier or two, whose links fail at any time, as do the replicas."""
    tiers = draw(st.sampled_from([tiers for tiers in TIERS if tiers]))
    num_blocks, replicas = draw(st.sampled_from([52, 60, 200])), draw(st.integers(1, 3))
    whats = [*(tier.name for tier in tiers), *(tier.name for tier in tiers), "replica"]
    faults = draw(
        st.lists(
            st.builds(
                Fault,
                st.sampled_from(whats),
                st.sampled_from([0.0, 0.001, 0.0137, 0.0201, 0.05, 0.2]),
                st.sampled_from([0.0005, 0.004, 0.1]) if draw(st.booleans()) else st.none(),
                st.sampled_from([None, *range(replicas)]),
            ).filter(lambda fault: fault.what != "replica" or fault.for_s is not None),
            min_size=1,
            max_size=5,
        )
    )
    router = draw(st.sampled_from(["round-robin", "session"]))
    fleet = tiered(tiers, *faults, replicas=replicas, num_blocks=num_blocks, late_blocks=jumps)
    return replace(fleet, router=router, jumps=jumps)


@given(workloads(), fleets())
@EXAMPLES
def test_no_call_is_lost_and_no_block_leaked(workload: Workload, fleet: FleetConfig) -> None:
    outcome = run_fleet(workload, fleet, check=True)
    outcome.check_answers(workload)
    for replica, links in zip(outcome.fleet.replicas, outcome.fleet._tier_links, strict=True):
        replica.scheduler.check()
        assert replica.scheduler.is_idle
        assert replica.scheduler.stats().blocks_used == 0
        assert replica.scheduler._transfers.is_idle
        assert all(pool.num_held == 0 for pool in replica.scheduler._transfers.tiers.pools.values())
        assert not any(end.under_way for end in links.ends.values())


@given(workloads(), fleets())
@EXAMPLES
def test_bytes_are_conserved(workload: Workload, fleet: FleetConfig) -> None:
    """What is read of a tier came back to the device, or went on to the tier below."""
    _, *tiers = run_fleet(workload, fleet).fleet.kv_uses()
    below = [*tiers[1:], None]
    for tier, lower in zip(tiers, below, strict=True):
        loaded_bytes = tier.loaded_tokens / fleet.block_size * KV_BLOCK_BYTES
        assert tier.read_bytes == loaded_bytes + (0.0 if lower is None else lower.written_bytes)


@given(workloads(), fleets())
@EXAMPLES
def test_jumps_change_nothing(workload: Workload, fleet: FleetConfig) -> None:
    pools = tuple(replace(p, scheduler=replace(p.scheduler, late_blocks=False)) for p in fleet.pools)
    one = run_fleet(workload, replace(fleet, pools=pools, jumps=False))
    other = run_fleet(workload, fleet)
    assert other.times() == one.times()
    assert other.fleet.kv_uses()[1:] == one.fleet.kv_uses()[1:]


def turns(*faults: Fault, tiers: tuple[TierMemory, ...] = (DRAM,)) -> Outcome:
    """A session comes back at 5 s and finds 4 blocks of 20 on the device; 16 in the tier."""
    return run_fleet(two_turns(), tiered(tiers, *faults), check=True)


def second(outcome: Outcome):
    return next(record for record in outcome.records if record.call.id == "b")


COMPUTED_NS = 3 * MS + 69 * 1000
"""Of what is not on the device: three steps for 69 tokens."""


def test_a_load_that_breaks_off_is_computed() -> None:
    """It would take until 19 ms after the call; 7 ms after it the link fails."""
    asked_ns = second(turns()).arrival_ns
    broken = turns(Fault("dram", asked_ns / 1e9 + 0.007, 1.0))
    receipt = second(broken).receipt
    assert (receipt.tokens_reused, receipt.queue_ns) == (16, 7 * MS)
    assert receipt.ttft_ns == 7 * MS + COMPUTED_NS
    _, dram = broken.fleet.kv_uses()
    assert (dram.loaded_tokens, dram.read_bytes) == (0, 0)
    assert dram.failed_transfers >= 1


def test_while_a_link_is_down_nobody_waits_for_it() -> None:
    receipt = second(turns(Fault("dram", 4.0))).receipt
    assert (receipt.tokens_reused, receipt.queue_ns, receipt.ttft_ns) == (16, 0, COMPUTED_NS)


def test_when_it_is_back_what_the_tier_held_is_there() -> None:
    whole, again = turns(), turns(Fault("dram", 2.0, 2.5))
    assert second(again).receipt == second(whole).receipt
    assert again.fleet.num_failures == 1
    assert again.fleet.kv_uses()[1].loaded_tokens == 64


def test_what_could_not_be_copied_is_not_there() -> None:
    """The first call ends while the link is down: of its 20 blocks, 7, 7 and 6."""
    outcome = turns(Fault("dram", 0.0, 0.9))
    assert second(outcome).receipt.tokens_reused == 16
    assert outcome.fleet.kv_uses()[1].failed_transfers == 3


def test_another_tier_is_as_near_as_before() -> None:
    ssd = TierMemory("ssd", 60 * KV_BLOCK_BYTES, bytes_per_s=1e6, latency_s=0.001)
    receipt = second(turns(Fault("ssd", 0.0), tiers=(DRAM, ssd))).receipt
    assert receipt == second(turns()).receipt


def test_only_the_replica_whose_link_it_is_computes() -> None:
    """Two sessions, a replica each, and for each another that takes its blocks before it comes back."""

    def reused(*faults: Fault) -> dict[str, int]:
        sessions: list[tuple[Call, ...]] = []
        for i in range(2):
            mine = tuple(range(100 * i, 100 * i + 20))
            first = Call(f"a{i}", PROMPT, ANSWER, session=f"s{i}", hash_ids=mine)
            sessions.append((first, msgspec.structs.replace(first, id=f"b{i}", arrival_s=None, gap_s=5.0)))
        for i in range(2):
            others = tuple(range(1000 * (i + 1), 1000 * (i + 1) + 25))
            sessions.append((Call(f"c{i}", 100, ANSWER, arrival_s=1.0, hash_ids=others),))
        outcome = run_fleet(Workload("two", sessions, 4), tiered((DRAM,), *faults, replicas=2))
        return {r.call.id: r.receipt.tokens_reused for r in outcome.records if r.call.id.startswith("b")}

    assert reused() == {"b0": 76, "b1": 76}
    assert reused(Fault("dram", 4.0, replica=1)) == {"b0": 76, "b1": 16}


def test_what_broke_off_passes_no_time_and_leaves_the_link_free() -> None:
    world, seen = World(), []
    links = TierLinks(world, (TierMemory("dram", 1e6, 1e3), TierMemory("ssd", 1e6, 1e3)), KV_BLOCK_BYTES)
    end = links.ends["dram"]
    note = lambda name: lambda ok: seen.append((name, world.now_ns, ok))  # noqa: E731
    links.load(Load(0, (b"k",), "dram", (ints(),), ints()), note("load"))
    links.load(Load(1, (b"k",) * 5, "dram", (ints(),), ints()), note("queued"))
    links.save(Save(2, (b"k",) * 9, "dram", (ints(),), "ssd", ints()), note("down"))
    world.at(2500 * MS, 0, end.fail)
    world.run()
    links.save(Save(3, (b"k",), DEVICE, (ints(),), "dram", ints()), note("at once"))
    world.run()
    end.recover()
    links.load(Load(4, (b"k",), "dram", (ints(),), ints()), note("again"))
    world.run()
    assert seen == [
        ("load", 1000 * MS, True),
        ("queued", 2500 * MS, False),
        ("down", 2500 * MS, False),
        ("at once", 2500 * MS, False),
        ("again", 3500 * MS, True),
    ]
    assert links.reads["dram"].sent_bytes == 2 * KV_BLOCK_BYTES
    assert links.num_failed == {"dram": 2, "ssd": 1}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("tape", 1.0), "fault of link=tape: no replica has such a link; links are: dram"),
        (Fault("ssd", 1.0, replica=0), "fault of link=ssd: replica 0 does not have such a link; links are: dram"),
        (Fault("dram", 1.0, replica=3), "there are 0 to 0"),
    ],
)
def test_a_link_that_is_none_gets_one_line(fault: Fault, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        run_fleet(lone((0, 1, 1)), tiered((DRAM,), fault))


# The command

AGENTS = ("--agents", "coding_agent", "--sessions", "4", "--concurrency", "4", "--num-blocks", "5000")
TIER = ("--kv-tier", "dram")


def called(*arguments: str):
    return CliRunner().invoke(simulate, (*AGENTS, "--replicas", "2", *arguments))


def test_failures_are_counted_and_follow_the_seed() -> None:
    fault = ("--fault", "link=dram,replica=0,at=1min,for=2h", "--fault", "link=dram,at=5min", *TIER)
    result = called(*fault, "--json")
    assert result.output == called(*fault, "--json").output
    found, whole = json.loads(result.output), json.loads(called(*TIER, "--json").output)
    assert (found["failures"], whole["failures"]) == (2, 0)
    assert found["kv"][1]["failed_transfers"] > 0 == whole["kv"][1]["failed_transfers"]
    assert found["kv"][1]["loaded_tokens"] == 0 < whole["kv"][1]["loaded_tokens"]
    assert (found["finished"], found["output_tokens"]) == (whole["finished"], whole["output_tokens"])
    assert "transfers failed" in called(*fault).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fault", "link=ssd,at=1", *TIER), "link must be handover or dram, not 'ssd'"),
        (("--fault", "link=dram,at=1"), "link must be handover, not 'dram'"),
        (("--fault", "link=dram,replica=2,at=1", *TIER), "fault of replica 2: there are 0 to 1"),
        (("--fault", "link=dram", *TIER), "it needs at=TIME, and replica=N or link=handover|dram"),
        (("--fault", "link=dram,at=soon", *TIER), "at: 'soon' is not a time"),
    ],
)
def test_bad_options_get_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = called(*arguments)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())
