"""A logged run forked: step times from the log, and what a change brings to the body that was logged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from click.testing import CliRunner

from headway.arithmetic.spans import Span
from headway.cli.simulate import simulate
from headway.scheduler.config import CacheGroup, ConfigError, SchedulerConfig
from headway.scheduler.contract import StepOutcome, StepPlan
from headway.scheduler.request import Request
from headway.scheduler.scheduler import Scheduler
from headway.scheduler.step_log import Header, Recorder
from headway.simulator.price import Price
from headway.simulator.recorded import RecordedTimer, pairs_of
from headway.simulator.step_time import Counts, Step, Steps
from headway.simulator.what_if import changed, parse_changes, read_logged, what_if
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


def real_run(config: SchedulerConfig) -> list[bytes]:
    """Requests with ids of tokens, half of whose prompts is shared, on a clock that the machine moves."""
    log: list[bytes] = []
    brain = Recorder(Scheduler(config), log.append, Header(1, config))
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
        took_ns = device_ns(plan)
        now_ns += took_ns + MS // 2
        brain.commit(StepOutcome(plan.number, np.ones(int(plan.samples.sum()), np.int64), device_ns=took_ns), now_ns)
        brain.take_ended()
        now_ns += BETWEEN_NS
    return log


def logged(tmp_path: Path, config: SchedulerConfig = CONFIG) -> Path:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(real_run(config)))
    return path


def no_system(name: str, max_step_tokens: int) -> RecordedTimer:
    raise AssertionError(f"{name} was not asked for, nor {max_step_tokens}")


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
    found = what_if(logged(tmp_path), {"system": "itself"}, lambda *_: Machine())
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        was, becomes = getattr(found.logged, name), getattr(found.changed, name)
        for quantile in ("mean", "p50", "p99", "max"):
            assert getattr(becomes, quantile) == pytest.approx(getattr(was, quantile), abs=1.01 * BETWEEN_NS / 1e9)


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
    found = what_if(path, parse_changes(changes), no_system)
    assert found.requests == 40
    assert found.simulated.ttft_s.mean == pytest.approx(found.logged.ttft_s.mean, rel=0.01)
    assert found.simulated.tpot_s.mean == pytest.approx(found.logged.tpot_s.mean, rel=0.01)
    before, after = means_s(path), means_s(logged(tmp_path, other))
    for name, was, measured in zip(("ttft_s", "tpot_s"), before, after, strict=True):
        predicted = getattr(found.changed, name).mean - getattr(found.simulated, name).mean
        assert predicted == pytest.approx(measured - was, rel=0.2, abs=0.02 * was)
    each = sum(d.ttft_s for d in found.differences) / 40
    assert each == pytest.approx(found.changed.ttft_s.mean - found.simulated.ttft_s.mean)


def test_no_change_is_no_difference(tmp_path: Path) -> None:
    found = what_if(logged(tmp_path), {"batching": "continuous"}, no_system)
    assert {d.energy_j for d in found.differences} == {None}
    assert {(d.ttft_s, d.tpot_s, d.e2e_s, d.service_s) for d in found.differences} == {(0, 0, 0, 0)}


def test_joules_and_dollars_go_by_the_time_of_each_system(tmp_path: Path) -> None:
    before, after = Price(100.0, 3.6), Price(50.0, None)
    found = what_if(logged(tmp_path), {"chunk": "16"}, no_system, before, after)
    for run in (found.logged, found.simulated):
        assert run.energy_j == pytest.approx(100 * run.service_s)
        assert run.cost_usd == pytest.approx(run.service_s / 1000)
    assert found.changed.energy_j == pytest.approx(50 * found.changed.service_s)
    assert found.changed.cost_usd is None
    assert {d.cost_usd for d in found.differences} == {None}
    total_j = sum(d.energy_j or 0.0 for d in found.differences)
    assert total_j == pytest.approx(50 * found.changed.service_s - 100 * found.simulated.service_s)


def test_nothing_to_compare_is_one_line(tmp_path: Path) -> None:
    path = logged(tmp_path)
    with pytest.raises(WorkloadError, match="with blocks=1 no request gets its whole answer"):
        what_if(path, {"blocks": "1"}, no_system)
    path.write_bytes(b"".join(line for line in real_run(CONFIG)[:6] if b'"event":"ended"' not in line))
    with pytest.raises(WorkloadError, match="no request of the log has a whole answer"):
        what_if(path, {"chunk": "16"}, no_system)


def test_a_contradiction_is_told_in_the_words_of_the_change(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"chunk \(4\) must be at least max_running \(8\)"):
        what_if(logged(tmp_path), {"chunk": "4"}, no_system)


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


def test_on_the_command_line(tmp_path: Path) -> None:
    path = str(logged(tmp_path))
    arguments = ["--replay", path, "--with", "system=hgx-h100", "--model", "smollm2-135m", "--json"]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["changed"]["tpot_s"]["mean"] < found["simulated"]["tpot_s"]["mean"]
    assert len(found["differences"]) == found["requests"] == 40
    assert found["logged"]["energy_j"] is None
    assert found["changed"]["energy_j"] == pytest.approx(700 * found["changed"]["service_s"])
    text = CliRunner().invoke(simulate, ["--replay", path, "--with", "chunk=16"]).output
    assert "40 requests" in text
    assert "TTFT" in text
    alone = CliRunner().invoke(simulate, ["--with", "chunk=16"])
    assert alone.exit_code == 2
    assert "--with: only with --replay LOG" in alone.output
