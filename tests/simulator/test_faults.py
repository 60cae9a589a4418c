"""Replicas and links fail and come back: no call is lost, none is answered twice, no token is emitted again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.simulate import simulate
from headway.simulator.faults import Fault, Faults, RandomFaults
from headway.simulator.fleet import FleetConfig
from headway.simulator.handover import Port
from headway.simulator.pools import Pool
from headway.simulator.world import World
from headway.workload.call import Workload, WorkloadError

from .drive import MS, Outcome, PlainTime, config, lone, run_fleet
from .strategies import workloads
from .test_handover import FLAT, split

EXAMPLES = settings(max_examples=60, deadline=None)


@st.composite
def fleets(draw, jumps: bool = True) -> FleetConfig:
    """Two or three replicas, alike or split, that fail at any time."""
    router = draw(st.sampled_from(["round-robin", "least-work", "session", "prefix"]))
    if draw(st.booleans()):
        fleet = split(Port(draw(st.sampled_from([3e4, 1e6]))), decodes=draw(st.integers(1, 2)))
    else:
        pool = Pool(draw(st.integers(1, 3)), config(draw(st.sampled_from([48, 60, 200]))), PlainTime())
        fleet = FleetConfig((pool,))
    num_replicas = sum(pool.num_replicas for pool in fleet.pools)
    faults = draw(
        st.lists(
            st.builds(
                Fault,
                st.sampled_from(["replica", "replica", "handover"] if fleet.parcel else ["replica"]),
                st.sampled_from([0.0, 0.001, 0.0137, 0.0201, 0.05, 0.2]),
                st.sampled_from([0.0005, 0.004, 0.1]),
                st.sampled_from([None, *range(num_replicas)]),
            ),
            min_size=1,
            max_size=5,
        )
    )
    return replace(fleet, router=router, faults=tuple(faults), jumps=jumps)


def stepped(fleet: FleetConfig) -> FleetConfig:
    pools = tuple(replace(p, scheduler=replace(p.scheduler, late_blocks=False)) for p in fleet.pools)
    return replace(fleet, pools=pools, jumps=False)


@given(workloads(), fleets())
@EXAMPLES
def test_no_call_is_lost_and_none_answered_twice(workload: Workload, fleet: FleetConfig) -> None:
    outcome = run_fleet(workload, fleet, check=True)
    outcome.check_answers(workload)
    for replica in outcome.fleet.replicas:
        assert replica.scheduler.is_idle
        assert replica.scheduler.stats().blocks_used == 0
        assert not replica.executor.expected


@given(workloads(), fleets())
@EXAMPLES
def test_no_token_is_emitted_again(workload: Workload, fleet: FleetConfig) -> None:
    """An answer of n tokens has n - 1 gaps, whichever replicas they came from."""
    outcome = run_fleet(workload, fleet)
    gaps = sum(replica.executor.gaps.num for replica in outcome.fleet.replicas)
    assert gaps == sum(max(0, r.receipt.tokens_generated - 1) for r in outcome.records)


@given(workloads(), fleets())
@EXAMPLES
def test_receipts_add_up_to_the_steps_cut_ones_included(workload: Workload, fleet: FleetConfig) -> None:
    outcome = run_fleet(workload, fleet)
    charged: Counter[int] = Counter()
    for record in outcome.records:
        charged.update(dict(record.charged_ns))
    for pool in range(len(fleet.pools)):
        executors = [backend.replica.executor for backend in outcome.fleet.of_pool(pool)]
        assert charged[pool] == sum(e.device_ns + e.host_ns for e in executors)


@given(workloads(), fleets())
@EXAMPLES
def test_jumps_change_nothing(workload: Workload, fleet: FleetConfig) -> None:
    one, other = run_fleet(workload, stepped(fleet)), run_fleet(workload, fleet)
    assert other.times() == one.times()
    for a, b in zip(one.fleet.replicas, other.fleet.replicas, strict=True):
        assert (a.executor.device_ns, a.executor.host_ns) == (b.executor.device_ns, b.executor.host_ns)


def alike(replicas: int, *faults: Fault, random: RandomFaults | None = None) -> FleetConfig:
    return FleetConfig((Pool(replicas, config(), FLAT),), "least-work", faults=faults, random_faults=random)


def only(outcome: Outcome):
    (record,) = outcome.records
    return record


def test_a_call_goes_on_elsewhere_with_what_it_had() -> None:
    """Four tokens, then a step cut in half; the other replica computes prompt and tokens anew, and the rest follows."""
    record = only(run_fleet(lone((0, 20, 10)), alike(2, Fault("replica", 0.0045, 1.0, 0))))
    r = record.receipt
    assert (record.replica, record.reason, r.tokens_generated, r.preemptions) == (1, "stop", 10, 0)
    assert (r.ttft_ns, record.end_ns) == (MS, 4.5 * MS + 6 * MS)
    assert r.tokens_computed == 20 + 3 + 1 + 24 + 5
    assert r.device_share_ns == 10.5 * MS


def test_where_no_replica_is_up_calls_wait() -> None:
    record = only(run_fleet(lone((0, 20, 3)), alike(1, Fault("replica", 0.0005, 0.1, 0))))
    assert record.end_ns == 100.5 * MS + 3 * MS
    assert record.receipt.ttft_ns == 101.5 * MS


def test_where_none_will_be_up_calls_are_answered() -> None:
    session = [*lone((0, 20, 3), (0.5, 4, 4)).sessions]
    outcome = run_fleet(Workload("w", session), alike(2, Fault("replica", 0.001, None)))
    assert [r.reason for r in outcome.records] == ["no_replica", "no_replica"]
    assert outcome.records[0].refusal == "no replica is up, and none will be"


def test_others_that_fail_and_come_back_keep_nobody_waiting_for_what_is_lost_for_good() -> None:
    """The only replica that serves a model is lost; one that fails at random serves others."""
    pools = (Pool(1, config(), FLAT, serves="a"), Pool(1, config(), FLAT))
    calls = [(msgspec.structs.replace(session[0], model="a"),) for session in lone((0, 20, 3)).sessions]
    fleet = FleetConfig(pools, faults=(Fault("replica", 0.001, None, 0),), random_faults=RandomFaults(60.0, 5.0))
    record = only(run_fleet(Workload("w", calls), fleet))
    assert (record.reason, record.refusal) == ("no_replica", "no replica is up, and none will be")


def test_after_the_end_no_fault_passes_time() -> None:
    outcome = run_fleet(lone((0, 20, 3)), alike(2, Fault("replica", 500.0, 1.0), random=RandomFaults(1000.0, 5.0)))
    assert outcome.fleet.world.now_ns == 3 * MS


def test_a_failed_link_makes_the_brain_compute() -> None:
    fleet = replace(split(Port(0.4e6), time=FLAT), faults=(Fault("handover", 0.004, 1.0),))
    record = only(run_fleet(lone((0, 33, 3)), fleet))
    assert record.end_ns == 4 * MS + 3 * MS, "the transfer breaks off at 4 ms; two steps for 34 tokens, and one more"
    assert record.receipt.tokens_computed == 33 + 34 + 1


def test_a_sender_that_fails_takes_what_it_promised_with_it() -> None:
    fleet = replace(split(Port(0.4e6), time=FLAT), faults=(Fault("replica", 0.004, 1.0, 0),))
    assert only(run_fleet(lone((0, 33, 3)), fleet)).end_ns == 7 * MS


def test_a_call_that_no_replica_brings_on_is_given_up() -> None:
    faults = [Fault("replica", 0.0005 + 0.001 * i, 0.0002, 0) for i in range(70)]
    record = only(run_fleet(lone((0, 20, 3)), alike(1, *faults)))
    assert record.reason == "failed"
    assert "64 replicas failed in a row" in record.refusal


def test_a_session_finds_another_home() -> None:
    calls = [(0.01 * i, 8, 2) for i in range(6)]
    sessions = [[msgspec.structs.replace(call, session="s") for call in session] for session in lone(*calls).sessions]
    fleet = replace(alike(2, Fault("replica", 0.015, 1.0, 0)), router="session")
    assert [r.replica for r in run_fleet(Workload("s", sessions), fleet).records] == [0, 0, 1, 1, 1, 1]


def test_random_faults_come_from_streams_of_their_own() -> None:
    def drawn(seed: int, replicas: int) -> list[tuple[int, str, int]]:
        world, seen = World(), []
        faults = Faults(
            world,
            replicas,
            lambda _, replica: seen.append((world.now_ns, "fails", replica)),
            lambda _, replica: seen.append((world.now_ns, "recovers", replica)),
        )
        faults.draw(RandomFaults(100.0, 10.0, seed))
        for _ in range(3000):
            world.run_aside()
        return seen

    one, more = drawn(3, 2), drawn(3, 3)
    assert one == drawn(3, 2)
    assert one != drawn(4, 2)
    common = [event for event in more if event[2] < 2]
    assert common == one[: len(common)], "a third replica leaves the first two as they were"
    up_s = [after[0] - before[0] for before, after in zip(one, one[2:], strict=False) if before[2] == after[2]]
    assert len(up_s) > 100


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Fault("replica", -1.0), "must have a time, not at=-1"),
        (lambda: Fault("replica", 1.0, 0.0), "a positive time, not for=0"),
        (lambda: RandomFaults(0.5, 1.0), "at least 1 s, not 0.5"),
        (lambda: RandomFaults(5.0, 0.0), "a positive time, not 0"),
        (lambda: run_fleet(lone((0, 1, 1)), alike(2, Fault("replica", 1.0, 1.0, 2))), "there are 0 to 1"),
        (lambda: run_fleet(lone((0, 1, 1)), alike(2, Fault("handover", 1.0))), "no pool hands anything over"),
    ],
)
def test_bad_faults_get_one_line(make, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        make()


# The command

LOAD = ("--requests", "60", "--rate", "30", "--replicas", "2", "--router", "least-work")


def called(*arguments: str):
    return CliRunner().invoke(simulate, (*LOAD, *arguments))


def test_calls_of_a_failed_replica_go_on_and_are_counted() -> None:
    found = json.loads(called("--fault", "replica=1,at=1,for=0.5", "--json").output)
    assert (found["finished"], found["output_tokens"]) == (60, 60 * 128)
    assert found["resent"] > 0
    assert found["charged_s"] == pytest.approx(found["busy_s"])
    for replicas in ("1", "2"):
        fault = ("--replicas", replicas, "--fault", "replica=0,at=1,for=0.5")
        times = json.loads(called(*fault, "--json").output)["resent"]
        assert f"1; {times} times a call lost its replica and was sent again" in called(*fault).output
    assert json.loads(called("--json").output)["resent"] == 0


def test_random_failures_follow_the_seed() -> None:
    arguments = ("--mtbf", "1", "--mttr", "200ms", "--json", "--seed")
    one, again, other = (json.loads(called(*arguments, seed).output) for seed in "112")
    assert one == again
    assert one["resent"] > 0
    assert one["finished"] == other["finished"] == 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fault", "replica=1"), "it needs at=TIME, and replica=N or link=handover"),
        (("--fault", "at=1"), "it needs at=TIME"),
        (("--fault", "replica=x,at=1"), "replica: 'x' is not a valid integer"),
        (("--fault", "replica=7,at=1"), "there are 0 to 1"),
        (("--fault", "replica=1,at=-1"), "at: '-1' is out of range: from 0 to 1,000,000 s"),
        (("--fault", "replica=1,at=nan"), "at: 'nan' is not a time"),
        (("--fault", "link=ethernet,at=1"), "link must be handover"),
        (("--fault", "link=handover,at=1"), "no pool hands anything over"),
        (("--fault", "colour=red,at=1"), "is not FIELD=VALUE with one of replica, link, at, for"),
        (("--mttr", "5"), "--mttr: only with --mtbf"),
        (("--mtbf", "0.5"), "mtbf must be at least 1 s"),
    ],
)
def test_bad_options_get_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = called(*arguments)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())
