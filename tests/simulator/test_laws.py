"""What holds for every run of the virtual body."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headway.scheduler.config import CacheGroup
from headway.simulator.world import World
from headway.workload.call import Call, Workload
from headway.workload.lengths import Fixed, Uniform
from headway.workload.synthetic import Synthetic

from .drive import MS, Outcome, PlainTime, config, lone, run
from .strategies import settings_of_fleets, workloads

BESIDE = {
    "nothing": (),
    "window": (CacheGroup("window", 60, window=10),),
    "state": (CacheGroup("state", 8),),
}
EXAMPLES = settings(max_examples=60, deadline=None)


def fleet(workload: Workload, chosen: dict[str, object], jumps: bool = True, check: bool = False) -> Outcome:
    num_blocks: int = chosen["num_blocks"]  # type: ignore[assignment]
    groups = (CacheGroup("full", num_blocks), *BESIDE[chosen["beside"]])  # type: ignore[index]
    scheduler = config(
        num_blocks,
        groups=groups,
        max_running=chosen["max_running"],
        prefix_caching=chosen["prefix_caching"],
        late_blocks=jumps,
        kv_ttl_ns=chosen["kv_ttl_ns"],
    )
    replicas, router, tiers = chosen["replicas"], chosen["router"], chosen["tiers"]
    return run(workload, scheduler, None, replicas, router, jumps, check=check, tiers=tiers)  # type: ignore[arg-type]


@given(workloads(), settings_of_fleets)
@EXAMPLES
def test_jumps_change_nothing_but_the_rounding_of_shares(workload: Workload, chosen: dict[str, object]) -> None:
    stepped, jumped = fleet(workload, chosen, jumps=False), fleet(workload, chosen, jumps=True)
    assert jumped.times() == stepped.times()
    for a, b in zip(stepped.fleet.replicas, jumped.fleet.replicas, strict=True):
        assert (a.executor.device_ns, a.executor.host_ns, a.executor.num_steps) == (
            b.executor.device_ns, b.executor.host_ns, b.executor.num_steps,
        )  # fmt: skip
        assert [a.executor.gaps.quantile_s(q) for q in (0.1, 0.5, 0.9, 1)] == [
            b.executor.gaps.quantile_s(q) for q in (0.1, 0.5, 0.9, 1)
        ]
        assert (a.executor.gaps.num, a.executor.gaps.total_ns) == (b.executor.gaps.num, b.executor.gaps.total_ns)
    for a, b in zip(stepped.records, jumped.records, strict=True):
        assert abs(a.receipt.device_share_ns - b.receipt.device_share_ns) <= a.receipt.steps


@given(workloads(), settings_of_fleets)
@EXAMPLES
def test_calls_and_blocks_are_conserved(workload: Workload, chosen: dict[str, object]) -> None:
    outcome = fleet(workload, chosen, check=True)
    asked = {call.id: call for session in workload.sessions for call in session}
    assert sorted(r.call.id for r in outcome.records) == sorted(asked)
    for record in outcome.records:
        wanted = asked[record.call.id].num_output_tokens
        assert record.receipt.tokens_generated == (wanted if record.ok else record.receipt.tokens_generated)
        if record.reason == "length":
            assert record.receipt.tokens_generated < wanted
    for replica in outcome.fleet.replicas:
        replica.scheduler.check()
        assert replica.scheduler.is_idle
        assert replica.scheduler.stats().blocks_used == 0
        assert not replica.executor._answers


@given(workloads(), settings_of_fleets)
@EXAMPLES
def test_causality(workload: Workload, chosen: dict[str, object]) -> None:
    """Nothing is answered before it is asked, a call before the end of those it waits for, a token before its step."""
    outcome = fleet(workload, chosen)
    ends = {r.call.id: r.end_ns for r in outcome.records}
    for r in outcome.records:
        receipt = r.receipt
        assert receipt.queue_ns >= 0
        assert receipt.prefill_ns >= 0
        assert receipt.decode_ns >= 0
        assert r.refused or receipt.ttft_ns > 0
        assert r.refused or receipt.queue_ns + receipt.prefill_ns + receipt.decode_ns == r.e2e_ns
    for session in workload.sessions:
        for number, later in enumerate(session[1:]):
            arrival = next(r.arrival_ns for r in outcome.records if r.call is later)
            waits = later.after or (number,)
            assert arrival == max(ends[session[n].id] for n in waits) + round(later.gap_s * 1e9)


@given(workloads(), settings_of_fleets)
@EXAMPLES
def test_receipts_add_up_to_the_steps(workload: Workload, chosen: dict[str, object]) -> None:
    outcome = fleet(workload, chosen)
    for replica in outcome.fleet.replicas:
        own = [r.receipt for r in outcome.records if r.replica == replica.index]
        assert sum(r.device_share_ns for r in own) == replica.executor.device_ns
        assert sum(r.host_share_ns for r in own) == replica.executor.host_ns
        assert sum(replica.executor.bound_ns) == replica.executor.device_ns + replica.executor.host_ns


@given(workloads(), settings_of_fleets)
@EXAMPLES
def test_work_is_conserved(workload: Workload, chosen: dict[str, object]) -> None:
    """A replica is never idle while a request is there: busy time is the union of its requests' stays. (But for those
    that wait for a tier.)
    """
    outcome = fleet(workload, chosen | {"tiers": ()})
    stays: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for r in outcome.records:
        if not r.refused:
            stays[r.replica].append((r.arrival_ns, r.end_ns))
    for replica in outcome.fleet.replicas:
        executor = replica.executor
        assert executor.device_ns + executor.host_ns == _union_ns(stays[replica.index])


def _union_ns(intervals: list[tuple[int, int]]) -> int:
    total, until = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


@given(workloads(), settings_of_fleets, st.randoms(use_true_random=False))
@EXAMPLES
def test_lengths_still_to_come_are_hidden(workload: Workload, chosen: dict[str, object], random) -> None:
    """Lengths of calls that have not ended by the middle of the run change: decisions until then are the same."""
    before = fleet(workload, chosen, jumps=False)
    middle_ns = sorted(r.end_ns for r in before.records)[len(before.records) // 2]
    late = {r.call.id for r in before.records if r.end_ns > middle_ns}

    def changed(call: Call) -> Call:
        longer = random.randint(0, 20)  # an answer that is not over by then may not become so
        return replace(call, num_output_tokens=call.num_output_tokens + longer) if call.id in late else call

    other = Workload(
        "changed", [[changed(c) for c in s] for s in workload.sessions], workload.hash_block_size, workload.concurrency
    )
    after = fleet(other, chosen, jumps=False)
    assert _decisions_until(before, middle_ns) == _decisions_until(after, middle_ns)


def _decisions_until(outcome: Outcome, time_ns: int) -> list[tuple[object, ...]]:
    return [line for line in outcome.times() if line[3] <= time_ns]  # type: ignore[operator]


@given(workloads(), settings_of_fleets)
@settings(max_examples=20, deadline=None)
def test_the_first_plans_do_not_depend_on_lengths(workload: Workload, chosen: dict[str, object]) -> None:
    """Before the first answer ends, every plan is the same to the byte."""
    longer = Workload(
        "longer",
        [[replace(c, num_output_tokens=c.num_output_tokens + 30) for c in s] for s in workload.sessions],
        workload.hash_block_size,
        workload.concurrency,
    )
    first, second = (fleet(w, chosen, jumps=False) for w in (workload, longer))
    first_end_ns = min(r.end_ns for r in first.records)
    for a, b in zip(first.digests, second.digests, strict=True):
        until = [plan for plan in a if plan[0] < first_end_ns]
        assert b[: len(until)] == until


@pytest.mark.parametrize("faster", [{"base_ns": MS // 2}, {"token_ns": 500}, {"attended_ns": 5}, {"gap_ns": 0}])
def test_a_faster_machine_is_never_slower(faster: dict[str, int]) -> None:
    """For lone requests, whose batches differ only in time. (With sessions, earlier ends bring other batches.)"""
    calls = [(0.002 * i, 20 + 7 * i % 50, 5 + 11 * i % 30) for i in range(60)]
    ends = []
    for time in (PlainTime(), PlainTime(**faster)):
        ends.append(max(r.end_ns for r in run(lone(*calls), time=time).records))
    assert ends[1] <= ends[0]


def test_littles_law() -> None:
    """Mean number in the system = rate x mean stay, over a run that begins and ends empty."""
    workload = Synthetic(3000, Uniform(10, 60), Fixed(12), rate_per_s=220, max_tokens=150).workload(1)
    records = run(workload).records
    duration_s = (max(r.end_ns for r in records) - min(r.arrival_ns for r in records)) / 1e9
    events = sorted([(r.arrival_ns, 1) for r in records] + [(r.end_ns, -1) for r in records])
    area, number, last_ns = 0, 0, 0
    for time_ns, change in events:
        area += number * (time_ns - last_ns)
        number, last_ns = number + change, time_ns
    mean_number = area / 1e9 / duration_s
    mean_stay_s = sum(r.e2e_ns for r in records) / len(records) / 1e9
    assert mean_number == pytest.approx(len(records) / duration_s * mean_stay_s, rel=1e-9)
    assert mean_number > 1


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_a_single_server_with_equal_jobs_waits_as_m_d_1(load: float) -> None:
    """One row at a time, one step a request: the Pollaczek-Khinchine mean wait, load / (2 (1 - load)) services."""
    service_s = 0.01
    time = PlainTime(base_ns=round(service_s * 1e9), token_ns=0, attended_ns=0, gap_ns=0)
    workload = Synthetic(20_000, Fixed(8), Fixed(1), rate_per_s=load / service_s).workload(3)
    records = run(workload, config(max_running=1, max_step_tokens=32, max_queued_requests=10_000), time).records
    waits_s = [r.receipt.queue_ns / 1e9 for r in records]
    assert sum(waits_s) / len(waits_s) == pytest.approx(load / (2 * (1 - load)) * service_s, rel=0.1)


PROGRAM = """
import sys
from tests.simulator.drive import config, run
from headway.workload.agentic import Agentic
from headway.workload.synthetic import Synthetic
from headway.workload.lengths import LogNormal
for workload in (
    Synthetic(200, LogNormal(40, .7), LogNormal(20, 1.0), 100, 300, prefixes=3, prefix_tokens=64).workload(9),
    Agentic("coding_agent", 4, max_context=150).workload(9).head(60),
):
    outcome = run(workload, config(200, block_size=16, max_step_tokens=64), replicas=2, router="prefix")
    for record in outcome.records:
        print(record.call.id, record.replica, record.end_ns, record.receipt)
    print(outcome.digests)
"""


def test_the_same_seed_gives_the_same_bytes_whatever_the_hash_seed_and_the_vector_units() -> None:
    digests = []
    for more in (
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2"},
        {"PYTHONHASHSEED": "1", "NPY_DISABLE_CPU_FEATURES": _features()},
    ):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | more,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        )
        assert len(done.stdout) > 10_000
        digests.append(hashlib.sha256(done.stdout).hexdigest())
    assert len(set(digests)) == 1


def _features() -> str:
    """Those that NumPy was built to choose at run time and that this machine has."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))


def test_ties_go_by_priority_and_then_by_the_order_in_which_they_were_asked_for() -> None:
    world, seen = World(), []
    for name, time_ns, priority in (("d", 5, 1), ("c", 5, 0), ("e", 5, 1), ("a", 1, 9), ("b", 5, -1)):
        world.at(time_ns, priority, seen.append, name)
    world.at(5, 2, lambda: world.at(5, 0, seen.append, "f"))
    world.run()
    assert seen == ["a", "b", "c", "d", "e", "f"]
    with pytest.raises(ValueError, match="already"):
        world.at(4, 0, seen.append, "late")
