"""A logged run forked: step times from the log, and what a change brings to the body that was logged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec
import numpy as np
import pytest

from headway.arithmetic.spans import Span
from headway.scheduler.config import CacheGroup, ConfigError, SchedulerConfig
from headway.scheduler.contract import StepOutcome, StepPlan
from headway.scheduler.request import Request
from headway.scheduler.scheduler import Scheduler
from headway.scheduler.step_log import Recorder
from headway.scheduler.step_records import VERSION, Header
from headway.simulator.changes import changed, parse_changes
from headway.simulator.logged_run import read_logged
from headway.simulator.model_error import Errors, errors
from headway.simulator.price import Price
from headway.simulator.recorded import RecordedTimer, pairs_of
from headway.simulator.step_time import Counts, Step, Steps
from headway.simulator.what_if import Machines, Taken, what_if
from headway.workload.call import WorkloadError

from .drive import MS

CONFIG = SchedulerConfig((CacheGroup("full", 400),), block_size=4, max_running=8, max_step_tokens=64, max_context=200)
BETWEEN_NS = MS // 4
"""From a commit to the next plan."""


class Machine:
    """The one that is logged: 2 ms a step, 50 us a token, 100 ns an attended pair; 750 us on the host."""

    spans = (Span(),)

    def one(self, step: Counts) -> Step:
        tokens, _, _, pairs, _, _ = step
        return Step(2 * MS + 50_000 * tokens + 100 * pairs[0], MS // 2 + BETWEEN_NS, 0)

    def several(self, steps: int, step: Counts) -> Steps:
        device_ns, host_ns, bound = self.one(step)
        return Steps(np.broadcast_to(device_ns, steps), host_ns, bound)


def device_ns(plan: StepPlan) -> int:
    return Machine().one((int(plan.counts.sum()), 0, 0, [pairs_of(plan)], [], [])).device_ns


def real_run(config: SchedulerConfig, repeated: bool = False) -> list[bytes]:
    """Requests with ids of tokens, half of whose prompts is shared, on a clock that the machine moves. `repeated`: a
    plan runs as often as it may.
    """
    log: list[bytes] = []
    brain = Recorder(Scheduler(config), log.append, Header(VERSION, config))
    rng = np.random.default_rng(3)
    shared = rng.integers(10, 99, 40)
    due = [(int(i * 9 * MS), np.concatenate([shared, rng.integers(10, 99, 20 + i)])) for i in range(40)]
    now_ns = 0
    while due or not brain.is_idle:
        while due and due[0][0] <= now_ns:
            at_ns, tokens = due.pop(0)
            brain.add(Request(f"r{at_ns}", len(tokens), 5 + at_ns // MS % 13, tokens), now_ns)
        plan = brain.plan(now_ns)
        if not isinstance(plan, StepPlan):
            now_ns = due[0][0]
            continue
        steps = plan.repeats if repeated else 1
        took_ns = sum(device_ns(msgspec.structs.replace(plan, starts=plan.starts + step)) for step in range(steps))
        now_ns += took_ns + steps * MS // 2
        drawn = np.ones(steps * int(plan.samples.sum()), np.int64)
        brain.commit(StepOutcome(plan.number, drawn, steps=steps, device_ns=took_ns), now_ns)
        brain.take_ended()
        now_ns += steps * BETWEEN_NS
    return log


def logged(tmp_path: Path, config: SchedulerConfig = CONFIG) -> Path:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(real_run(config)))
    return path


def test_the_fit_finds_the_machine(tmp_path: Path) -> None:
    """The last step is left out: how long the host took after it is not in the log."""
    steps = read_logged(logged(tmp_path)).steps[:-1]
    timer = RecordedTimer(steps)
    for step in steps:
        shape: Counts = (step.tokens, step.sequences, 0, [step.pairs], [], [])
        assert timer.one(shape).device_ns == pytest.approx(Machine().one(shape).device_ns, rel=1e-6)
        assert timer.one(shape).host_ns == pytest.approx(MS // 2 + BETWEEN_NS, rel=1e-4)
    assert timer.median_error < 1e-6


def test_with_the_steps_of_the_machine_it_is_the_logged_run(tmp_path: Path) -> None:
    """Each request to the time from a commit to the next plan, which is in the step there."""
    found = what_if(logged(tmp_path), {"system": "itself"}, Machines(lambda _: Machine()))
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        was, becomes = getattr(found.logged, name), getattr(found.changed, name)
        for quantile in ("mean", "p50", "p99", "max"):
            assert getattr(becomes, quantile) == pytest.approx(getattr(was, quantile), abs=1.01 * BETWEEN_NS / 1e9)


def approx(*values: float) -> tuple[Any, ...]:
    return tuple(pytest.approx(value) for value in values)


def means_s(path: Path) -> tuple[float, float]:
    receipts = read_logged(path).receipts.values()
    return mean(r.ttft_ns for r in receipts) / 1e9, mean(r.tpot_ns for r in receipts) / 1e9


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ("prefix_cache=off", replace(CONFIG, prefix_caching=False)),
        ("chunk=16", replace(CONFIG, max_step_tokens=16)),
        ("max_running=2", replace(CONFIG, max_running=2)),
    ],
)
def test_the_predicted_difference_is_the_measured_one(tmp_path: Path, changes: str, other: SchedulerConfig) -> None:
    """The machine that was logged runs once more with the change: means differ as predicted, to 20% of the change."""
    path = logged(tmp_path)
    found = what_if(path, parse_changes(changes))
    assert found.requests == 40
    assert found.simulated.ttft_s.mean == pytest.approx(found.logged.ttft_s.mean, rel=0.01)
    assert found.simulated.tpot_s.mean == pytest.approx(found.logged.tpot_s.mean, rel=0.01)
    before, after = means_s(path), means_s(logged(tmp_path, other))
    for name, was, measured in zip(("ttft_s", "tpot_s"), before, after, strict=True):
        predicted = getattr(found.changed, name).mean - getattr(found.simulated, name).mean
        assert predicted == pytest.approx(measured - was, rel=0.2, abs=0.02 * was)
    each = sum(one.difference.ttft_s for one in found.by_request) / 40
    assert each == pytest.approx(found.changed.ttft_s.mean - found.simulated.ttft_s.mean)


def test_a_model_that_is_the_machine_is_off_by_nothing(tmp_path: Path) -> None:
    """But for the host time after the last step, which is not in the log, and that each request waits for the time
    from a commit to the next plan, which is in the step there.
    """
    found = what_if(logged(tmp_path), {}, Machines(lambda _: Machine()))
    error = found.model_error
    assert error is not None
    assert error.prompt_steps.number + error.decode_steps.number == found.steps
    for steps in (error.prompt_steps, error.decode_steps):
        assert steps.p90 == 0
        assert steps.of_mean == pytest.approx(0, abs=2e-3)
    assert error.tpot.median == pytest.approx(0, abs=1e-9)
    assert error.ttft.number == found.requests
    assert error.ttft.of_mean == pytest.approx(BETWEEN_NS / 1e9 / (found.logged.ttft_s.mean or 0), rel=1e-2)


class Slower(Machine):
    """By one half, device and host."""

    def one(self, step: Counts) -> Step:
        device_ns, host_ns, bound = super().one(step)
        return Step(device_ns * 3 // 2, host_ns * 3 // 2, bound)


def test_a_model_that_is_slower_is_off_by_as_much_and_differences_are_from_the_log(tmp_path: Path) -> None:
    found = what_if(logged(tmp_path), {"system": "slower"}, Machines(lambda _: Slower()))
    assert found.model_error is not None
    for steps in (found.model_error.prompt_steps, found.model_error.decode_steps):
        assert steps.median == steps.p90 == pytest.approx(0.5)
        assert steps.of_mean == pytest.approx(0.5, rel=1e-2)
    was, becomes = found.logged.ttft_s.mean, found.changed.ttft_s.mean
    assert was is not None
    assert becomes is not None
    assert found.model_error.ttft.of_mean == pytest.approx(becomes / was - 1)
    assert found.differences_from == "logged"
    for one in found.by_request:
        assert one.difference.e2e_s == pytest.approx(one.changed.e2e_s - one.logged.e2e_s)


def test_of_a_plan_that_ran_several_times_the_step_in_the_middle_stands_for_all(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(real_run(CONFIG, repeated=True)))
    second, prompt_tokens = read_logged(path).rows[1], 60
    assert b'"number":1,"submitted_ns":0,"done_ns":0,"device_ns":8225000,"steps":4' in path.read_bytes()
    assert (second.starts.tolist(), second.counts.tolist()) == ([prompt_tokens + 1], [1])
    error = what_if(path, {}, Machines(lambda _: Machine())).model_error
    assert error is not None
    assert error.decode_steps.of_mean == pytest.approx(0, abs=2e-3)


def test_both_runs_on_a_model_and_its_error_is_that_of_the_first(tmp_path: Path) -> None:
    on = Machines(lambda _: Machine())
    found = what_if(logged(tmp_path), {"weights": "x"}, Machines(lambda _: Slower()), on)
    assert found.differences_from == "simulated"
    assert found.model_error is not None
    assert found.model_error.decode_steps.median == 0
    for one in found.by_request:
        assert one.difference.tpot_s == pytest.approx(one.changed.tpot_s - one.simulated.tpot_s)


def test_errors_are_relative_and_leave_out_what_took_no_time() -> None:
    assert errors([(11, 10), (18, 20), (30, 20), (5, 0)]) == Errors(3, pytest.approx(59 / 50 - 1), *approx(0.1, 0.5))
    assert errors([(5, 0)]) == Errors(0, None, None, None)


def test_more_replicas_share_the_requests(tmp_path: Path) -> None:
    """With step times as fitted: requests wait less, and in batches of fewer rows each takes more of its steps."""
    found = what_if(logged(tmp_path), {"replicas": "2"}, Machines(num_replicas=2))
    assert found.differences_from == "simulated"
    assert found.model_error is None
    assert (found.changed.ttft_s.mean or 0) < (found.simulated.ttft_s.mean or 0)
    assert (found.changed.tpot_s.mean or 0) < (found.simulated.tpot_s.mean or 0)
    assert found.changed.service_s > found.simulated.service_s


def test_no_change_is_no_difference(tmp_path: Path) -> None:
    found = what_if(logged(tmp_path), {"batching": "continuous"})
    assert found.differences_from == "simulated"
    assert {one.difference for one in found.by_request} == {Taken(0, 0, 0, 0, None, None)}


def test_joules_and_dollars_go_by_the_time_of_each_system(tmp_path: Path) -> None:
    before, after = Price(100.0, 3.6), Price(50.0, None)
    found = what_if(logged(tmp_path), {"chunk": "16"}, Machines(price=after), Machines(price=before))
    for run in (found.logged, found.simulated):
        assert run.energy_j == pytest.approx(100 * run.service_s)
        assert run.cost_usd == pytest.approx(run.service_s / 1000)
    assert found.changed.energy_j == pytest.approx(50 * found.changed.service_s)
    assert found.changed.cost_usd is None
    assert {one.difference.cost_usd for one in found.by_request} == {None}
    total_j = sum(one.difference.energy_j or 0.0 for one in found.by_request)
    assert total_j == pytest.approx(50 * found.changed.service_s - 100 * found.simulated.service_s)


def test_nothing_to_compare_is_one_line(tmp_path: Path) -> None:
    path = logged(tmp_path)
    with pytest.raises(WorkloadError, match="with blocks=1 no request gets its whole answer"):
        what_if(path, {"blocks": "1"})
    path.write_bytes(b"".join(line for line in real_run(CONFIG)[:6] if b'"event":"ended"' not in line))
    with pytest.raises(WorkloadError, match="no request of the log has a whole answer"):
        what_if(path, {"chunk": "16"})


def test_a_contradiction_is_told_in_the_words_of_the_change(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"chunk \(4\) must be at least max_running \(8\)"):
        what_if(logged(tmp_path), {"chunk": "4"})


def test_changes_as_text() -> None:
    assert parse_changes("prefix_cache=off, chunk=32,system=hgx-h100") == {
        "prefix_cache": "off",
        "chunk": "32",
        "system": "hgx-h100",
    }
    assert changed(CONFIG, {"blocks": "9", "batching": "static"}).groups == (CacheGroup("full", 9),)
    for word in ("worst-case", "worst_case"):
        assert changed(CONFIG, {"reservation": word}).reservation == "worst_case"
    for bad in ("", "chunk", "chunk=0", "chunk=x", "prefix_cache=maybe", "batching=x", "color=red"):
        with pytest.raises(WorkloadError, match="--with"):
            parse_changes(bad)
