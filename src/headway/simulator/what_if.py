"""A logged run, forked with something changed: what each request would have taken then.

The workload is the log's; step times are fitted to the log, or those of a system. As logged, the same in simulation,
and changed stand side by side: the second against the first tells how far the simulation can be believed.

A step loop takes requests in between two steps only, and that is the arrival that a log has. Where a step was in
flight, the request is taken to have come in the middle of it, and its wait is counted in all three.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.scheduler import step_log
from headway.scheduler.config import ConfigError, SchedulerConfig
from headway.scheduler.contract import StepPlan
from headway.scheduler.receipt import Receipt
from headway.scheduler.step_log import Add, Commit, Ended, Header, Plan
from headway.simulator.executor import Timer
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.pools import Pool
from headway.simulator.price import Price
from headway.simulator.record import Record
from headway.simulator.recorded import LoggedStep, RecordedTimer, pairs_of
from headway.simulator.results import Quantiles, quantiles
from headway.workload.call import Workload, WorkloadError, start_s
from headway.workload.step_log_trace import log_lines, read_step_log

UNKNOWN = Price(None, None)


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds, over the requests that have a whole answer in all three runs."""

    ttft_s: Quantiles
    tpot_s: Quantiles
    e2e_s: Quantiles
    service_s: float
    """Device and host time of all their shares."""
    energy_j: float | None
    """Of that time, all chips at their power limit; None: not known for this run's system."""
    cost_usd: float | None
    """Of that time, of all chips."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one request, changed less as it was (both in simulation). None: not known for both systems."""

    id: str
    ttft_s: float
    tpot_s: float
    e2e_s: float
    service_s: float
    energy_j: float | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    steps: int
    requests: int
    fit_median_error: float
    """Of a step's device time, on the log itself."""
    changes: dict[str, str]
    logged: Run
    simulated: Run
    changed: Run
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Logged:
    config: SchedulerConfig
    steps: tuple[LoggedStep, ...]
    receipts: dict[str, Receipt]
    """Of requests with a whole answer, counted from where they are taken to have come."""
    waits_ns: dict[str, int]
    """From there to where the log has them."""


def what_if(
    path: Path,
    changes: dict[str, str],
    system: Callable[[str, int], Timer],
    before: Price = UNKNOWN,
    after: Price = UNKNOWN,
) -> WhatIf:
    """`changes`: see CHANGES; `system` gives the step times of a system, by its name, for steps of so many tokens.
    `before` and `after`: power and rent of all chips that were logged, and of those of the changed run.

    Raises StepLogError if the log does not replay, WorkloadError for a change that is not known, a log too short
    or one of which nothing can be compared.
    """
    try:
        logged = read_logged(path)
    except step_log.StepLogError as error:
        raise step_log.StepLogError(f"{path}: {error}") from None
    if logged.config.speculation is not None:
        raise WorkloadError(f"{path}: the run drafted tokens, which cannot be simulated: acceptance is not known")
    if logged.config.tiers:
        raise WorkloadError(f"{path}: the run kept KV in tiers, whose speed is not in its log")
    if not logged.receipts:
        raise WorkloadError(f"{path}: no request of the log has a whole answer, so there is nothing to compare")
    try:
        recorded = RecordedTimer(logged.steps)
    except ValueError as error:
        raise WorkloadError(f"{path}: {error}") from None
    base = replace(logged.config, token_ids=False, late_blocks=True)
    config = changed(base, changes)
    workload = _workload(path, logged.waits_ns)
    simulated = _run(workload, base, recorded)
    named = changes.get("system")
    timer: Timer = recorded
    if named is not None:
        timer = system(named, config.max_step_tokens)
    other = _run(workload, config, timer)
    whole = [id for id, receipt in logged.receipts.items() if _whole(id, receipt, simulated, other)]
    if not whole:
        given = ",".join(f"{name}={value}" for name, value in changes.items())
        raise WorkloadError(f"{path}: with {given} no request gets its whole answer, so there is nothing to compare")
    pairs = ((id, simulated[id], other[id]) for id in whole)
    return WhatIf(
        steps=len(logged.steps),
        requests=len(whole),
        fit_median_error=recorded.median_error,
        changes=changes,
        logged=_of(logged.receipts, whole, before),
        simulated=_of(simulated, whole, before),
        changed=_of(other, whole, after),
        differences=tuple(_difference(id, was, becomes, before, after) for id, was, becomes in pairs),
    )


def read_logged(path: Path) -> Logged:
    """Replays the log, so that each step's shape is known. Raises StepLogError, WorkloadError."""
    plans: dict[int, tuple[StepPlan, int]] = {}
    step_log.replay(log_lines(path), lambda plan, now: plans.update({plan.number: (plan, now)}))
    config: SchedulerConfig | None = None
    steps: list[LoggedStep] = []
    receipts: dict[str, Receipt] = {}
    waits_ns: dict[str, int] = {}
    in_flight_ns = 0
    done: Commit | None = None
    for _, record in step_log.read(log_lines(path)):
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
                done = record
        elif isinstance(record, Ended) and record.reason in ("stop", "length"):
            queue_ns = record.receipt.queue_ns + waits_ns[record.id]
            receipts[record.id] = replace(record.receipt, queue_ns=queue_ns)
    if config is None:
        raise WorkloadError(f"{path}: no header")
    return Logged(config, tuple(steps), receipts, waits_ns)


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


def _workload(path: Path, waits_ns: dict[str, int]) -> Workload:
    logged = read_step_log(path)
    sessions = [
        (replace(call, arrival_s=max(0.0, start_s(session) - waits_ns[call.id] / 1e9)),)
        for session in logged.sessions
        for call in session
    ]
    return replace(logged, sessions=sorted(sessions, key=start_s))


def _run(workload: Workload, config: SchedulerConfig, timer: Timer) -> dict[str, Receipt]:
    records: list[Record] = []
    Fleet(FleetConfig((Pool(1, config, timer),)), records.append).run(workload)
    return {record.call.id: record.receipt for record in records if record.ok}


def _whole(id: str, receipt: Receipt, *runs: dict[str, Receipt]) -> bool:
    return receipt.tokens_generated > 0 and all(id in run for run in runs)


def _of(receipts: dict[str, Receipt], ids: list[str], price: Price) -> Run:
    chosen = [receipts[id] for id in ids]
    service_s = sum(_service_s(r) for r in chosen)
    return Run(
        ttft_s=quantiles((r.ttft_ns for r in chosen), 1e-9),
        tpot_s=quantiles((r.tpot_ns for r in chosen if r.tokens_generated > 1), 1e-9),
        e2e_s=quantiles((r.ttft_ns + r.decode_ns for r in chosen), 1e-9),
        service_s=service_s,
        energy_j=_times(service_s, price.power_w),
        cost_usd=_times(service_s / 3600, price.usd_per_hour),
    )


def _difference(id: str, was: Receipt, becomes: Receipt, before: Price, after: Price) -> Difference:
    was_s, becomes_s = _service_s(was), _service_s(becomes)
    return Difference(
        id,
        ttft_s=(becomes.ttft_ns - was.ttft_ns) / 1e9,
        tpot_s=(becomes.tpot_ns - was.tpot_ns) / 1e9,
        e2e_s=(becomes.ttft_ns + becomes.decode_ns - was.ttft_ns - was.decode_ns) / 1e9,
        service_s=becomes_s - was_s,
        energy_j=_less(_times(becomes_s, after.power_w), _times(was_s, before.power_w)),
        cost_usd=_less(_times(becomes_s / 3600, after.usd_per_hour), _times(was_s / 3600, before.usd_per_hour)),
    )


def _service_s(receipt: Receipt) -> float:
    return (receipt.device_share_ns + receipt.host_share_ns) / 1e9


def _times(amount: float, rate: float | None) -> float | None:
    return None if rate is None else amount * rate


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


# Changes


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("on or off")
    return text == "on"


def _count(most: int) -> Callable[[str], int]:
    def counted(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= most):
            raise ValueError(f"a whole number from 1 to {most:,}")
        return int(text)

    return counted


def _one_of(*names: str) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text not in names:
            raise ValueError(" or ".join(names))
        return text.replace("-", "_")

    return chosen


CHANGES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "prefix_cache": ("prefix_caching", _switch),
    "chunk": ("max_step_tokens", _count(1 << 20)),
    "max_running": ("max_running", _count(65_536)),
    "batching": ("batching", _one_of("continuous", "static")),
    "reservation": ("reservation", _one_of("demand", "worst-case", "worst_case")),
    "blocks": ("groups", _count(1 << 24)),
}
"""Name → field of the scheduler's configuration, and how its value is written. Beside them: system."""


def parse_changes(text: str) -> dict[str, str]:
    """`name=value,name=value`. Raises WorkloadError for a name that is not known or a value that is not allowed."""
    changes: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if not equals or (name not in CHANGES and name != "system"):
            known = ", ".join([*CHANGES, "system"])
            raise WorkloadError(f"--with {part.strip()!r}: name=value is needed, with a name of {known}")
        if name in changes:
            raise WorkloadError(f"--with {text!r}: {name} is there twice")
        if name in CHANGES:
            try:
                CHANGES[name][1](value)
            except ValueError as error:
                raise WorkloadError(f"--with {name} must be {error}, not {value!r}") from None
        changes[name] = value
    return changes


def changed(config: SchedulerConfig, changes: dict[str, str]) -> SchedulerConfig:
    """Raises ConfigError, in the names of CHANGES, where the outcome contradicts itself."""
    fields: dict[str, Any] = {CHANGES[n][0]: CHANGES[n][1](value) for n, value in changes.items() if n in CHANGES}
    if "groups" in fields:
        fields["groups"] = tuple(replace(group, num_blocks=fields["groups"]) for group in config.groups)
    try:
        return replace(config, **fields)
    except ConfigError as error:
        text = str(error)
        for name, (field, _) in CHANGES.items():
            text = text.replace(field, name)
        raise ConfigError(f"--with: {text}") from None
