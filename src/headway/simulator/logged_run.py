"""What a step log tells of its run: the shape and cost of each step, and what each request took.

A step loop takes requests in between two steps only, and that is the arrival that a log has. Where a step was in
flight, the request is taken to have come in the middle of it, and its wait is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from headway.scheduler import step_log, step_records
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Ints, StepPlan
from headway.scheduler.receipt import Receipt
from headway.scheduler.step_records import Add, Commit, Ended, Header, Plan
from headway.simulator.recorded import LoggedStep, pairs_of
from headway.workload.call import Workload, WorkloadError, start_s
from headway.workload.step_log_trace import log_lines, read_step_log


@dataclass(frozen=True, slots=True)
class StepRows:
    """Of a plan that ran several times, those of the one in the middle."""

    starts: Ints
    counts: Ints
    sampled: int

    @property
    def has_prompt(self) -> bool:
        return int(self.counts.sum()) > len(self.counts)


@dataclass(frozen=True, slots=True)
class Logged:
    config: SchedulerConfig
    steps: tuple[LoggedStep, ...]
    rows: tuple[StepRows, ...]
    """Of each step."""
    receipts: dict[str, Receipt]
    """Of requests with a whole answer, counted from where they are taken to have come."""
    waits_ns: dict[str, int]
    """From there to where the log has them."""


def read_logged(path: Path) -> Logged:
    """Replays the log, so that each step's shape is known. Raises StepLogError, WorkloadError."""
    plans: dict[int, tuple[StepPlan, int]] = {}
    step_log.replay(log_lines(path), lambda plan, now: plans.update({plan.number: (plan, now)}))
    config: SchedulerConfig | None = None
    steps: list[LoggedStep] = []
    rows: list[StepRows] = []
    receipts: dict[str, Receipt] = {}
    waits_ns: dict[str, int] = {}
    in_flight_ns = 0
    done: Commit | None = None
    for _, record in step_records.read(log_lines(path)):
        if isinstance(record, Header):
            config = record.config
        elif isinstance(record, Add):
            waits_ns[record.id] = in_flight_ns // 2
        elif isinstance(record, Plan):
            if record.digest is None:
                in_flight_ns = 0
            if done is not None:
                between_ns = (record.now_ns - done.now_ns) // done.steps
                steps[-1] = replace(steps[-1], host_ns=steps[-1].host_ns + between_ns)
                done = None
        elif isinstance(record, Commit):
            plan, planned_ns = plans.pop(record.number)
            in_flight_ns = (record.now_ns - planned_ns) // record.steps
            if record.error is None:
                steps.append(_logged_step(record, plan, planned_ns))
                rows.append(_rows(plan, record.steps))
                done = record
        elif isinstance(record, Ended) and record.reason in ("stop", "length"):
            queue_ns = record.receipt.queue_ns + waits_ns[record.id]
            receipts[record.id] = msgspec.structs.replace(record.receipt, queue_ns=queue_ns)
    if config is None:
        raise WorkloadError(f"{path}: no header")
    return Logged(config, tuple(steps), tuple(rows), receipts, waits_ns)


def _logged_step(commit: Commit, plan: StepPlan, planned_ns: int) -> LoggedStep:
    """Of a plan that ran several times, one of them: the mean. The host's time up to the next plan is not in it yet."""
    host_ns = max(0, commit.now_ns - planned_ns - commit.device_ns)
    return LoggedStep(
        int(plan.counts.sum()),
        len(plan.slots),
        pairs_of(plan),
        commit.device_ns // commit.steps,
        host_ns // commit.steps,
    )


def _rows(plan: StepPlan, steps: int) -> StepRows:
    return StepRows(plan.starts + (steps - 1) // 2, plan.counts, int(plan.samples.sum()))


def workload_of(path: Path, waits_ns: dict[str, int]) -> Workload:
    logged = read_step_log(path)
    sessions = [
        (msgspec.structs.replace(call, arrival_s=max(0.0, start_s(session) - waits_ns[call.id] / 1e9)),)
        for session in logged.sessions
        for call in session
    ]
    return replace(logged, sessions=sorted(sessions, key=start_s))
