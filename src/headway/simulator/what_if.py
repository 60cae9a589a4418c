"""A logged run, forked with something changed: what each request would have taken then.

The workload is the log's; step times are fitted to the log, or those of a system. As logged, the same in simulation,
and changed stand side by side. The second against the first tells how far the simulation can be believed; a difference
is the third less the second. Where nothing but the step times is replaced, by those of a model, it is the third less
the first, and tells how far the model is off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headway.scheduler import step_records
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.receipt import Receipt
from headway.simulator.changes import changed
from headway.simulator.executor import Timer
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.logged_run import Logged, read_logged, workload_of
from headway.simulator.model_error import ModelError, model_error
from headway.simulator.pools import Pool
from headway.simulator.price import Price
from headway.simulator.record import Record
from headway.simulator.recorded import RecordedTimer
from headway.simulator.results import Quantiles, quantiles
from headway.workload.call import Workload, WorkloadError

UNKNOWN = Price(None, None)


@dataclass(frozen=True, slots=True)
class Machines:
    """What a simulated run is on."""

    step_time: Callable[[SchedulerConfig], Timer] | None = None
    """Of a replica that is so configured. None: as fitted to the log."""
    price: Price = UNKNOWN
    """Of all chips of a replica."""
    num_replicas: int = 1
    router: str = "round-robin"
    title: str = ""
    """Model, chips and cost model in words."""


@dataclass(frozen=True, slots=True)
class Taken:
    """By one request, or a difference of two. Joules and dollars go by service time; None: not known."""

    ttft_s: float
    tpot_s: float
    e2e_s: float
    service_s: float
    """Device and host time of its shares."""
    energy_j: float | None
    """Of that time, all chips at their power limit."""
    cost_usd: float | None
    """Of that time, of all chips."""


@dataclass(frozen=True, slots=True)
class Compared:
    id: str
    logged: Taken
    simulated: Taken
    changed: Taken
    difference: Taken


@dataclass(frozen=True, slots=True)
class Run:
    """Over the requests that have a whole answer in all three runs."""

    ttft_s: Quantiles
    tpot_s: Quantiles
    e2e_s: Quantiles
    service_s: float
    """The sum, as are joules and dollars."""
    energy_j: float | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    steps: int
    requests: int
    """That have a whole answer in all three runs."""
    left_out: int
    """That have one in the log only: they do not fit, or are cut at a limit."""
    fit_median_error: float
    """Of a step's device time, on the log itself."""
    changes: Mapping[str, str]
    simulated_on: str
    """In words; empty: step times are fitted to the log."""
    changed_on: str
    """The same."""
    differences_from: Literal["simulated", "logged"]
    """What is taken off the changed run."""
    logged: Run
    simulated: Run
    changed: Run
    model_error: ModelError | None
    """Of the model that times the run with nothing changed, if one does."""
    by_request: tuple[Compared, ...]


def what_if(
    path: Path, changes: Mapping[str, str], other: Machines | None = None, logged_on: Machines | None = None
) -> WhatIf:
    """`changes`: see `parse_changes`; those of hardware and fleet are in `other` already, which is None for what was
    logged. `logged_on`: the price of that, and its model where steps of the simulated run are to be timed by it.

    Raises StepLogError if the log does not replay, WorkloadError for a log too short or one of which nothing can be
    compared, ConfigError for changes that contradict each other.
    """
    logged = _read(path)
    try:
        recorded = RecordedTimer(logged.steps)
    except ValueError as error:
        raise WorkloadError(f"{path}: {error}") from None
    was_on = logged_on or Machines()
    other = other or was_on
    base = replace(logged.config, token_ids=False, late_blocks=True)
    config = changed(base, changes)
    before, after = (recorded if m.step_time is None else m.step_time(c) for m, c in ((was_on, base), (other, config)))
    workload = workload_of(path, logged.waits_ns)
    runs = (
        logged.receipts,
        _run(workload, Pool(1, base, before), "round-robin"),
        _run(workload, Pool(other.num_replicas, config, after), other.router),
    )
    answered = [id for id, receipt in logged.receipts.items() if receipt.tokens_generated]
    whole = [id for id in answered if all(id in run for run in runs)]
    if not whole:
        given = ",".join(f"{name}={value}" for name, value in changes.items()) or "other step times"
        raise WorkloadError(f"{path}: with {given} no request gets its whole answer, so there is nothing to compare")
    replaced = before is recorded and after is not recorded and changes.keys() <= {"system"}
    modelled, its_run = (after, runs[2]) if replaced else (before, runs[1])
    prices = (was_on.price, was_on.price, other.price)
    return WhatIf(
        steps=len(logged.steps),
        requests=len(whole),
        left_out=len(answered) - len(whole),
        fit_median_error=recorded.median_error,
        changes=changes,
        simulated_on=was_on.title,
        changed_on=other.title,
        differences_from="logged" if replaced else "simulated",
        logged=_of(runs[0], whole, prices[0]),
        simulated=_of(runs[1], whole, prices[1]),
        changed=_of(runs[2], whole, prices[2]),
        model_error=None if modelled is recorded else model_error(logged, modelled, its_run, whole),
        by_request=tuple(
            _compared(id, [_taken(run[id], price) for run, price in zip(runs, prices, strict=True)], not replaced)
            for id in whole
        ),
    )


def _read(path: Path) -> Logged:
    try:
        logged = read_logged(path)
    except step_records.StepLogError as error:
        raise step_records.StepLogError(f"{path}: {error}") from None
    if logged.config.speculation is not None:
        raise WorkloadError(f"{path}: the run drafted tokens, which cannot be simulated: acceptance is not known")
    if logged.config.tiers:
        raise WorkloadError(f"{path}: the run kept KV in tiers, whose speed is not in its log")
    if not logged.receipts:
        raise WorkloadError(f"{path}: no request of the log has a whole answer, so there is nothing to compare")
    return logged


def _run(workload: Workload, pool: Pool, router: str) -> dict[str, Receipt]:
    records: list[Record] = []
    Fleet(FleetConfig((pool,), router), records.append).run(workload)
    return {record.call.id: record.receipt for record in records if record.ok}


def _of(receipts: dict[str, Receipt], ids: list[str], price: Price) -> Run:
    chosen = [receipts[id] for id in ids]
    service_s = sum(_service_s(r) for r in chosen)
    return Run(
        ttft_s=quantiles((r.ttft_ns for r in chosen), 1e-9),
        tpot_s=quantiles((r.tpot_ns for r in chosen if r.tokens_generated > 1), 1e-9),
        e2e_s=quantiles((r.ttft_ns + r.decode_ns for r in chosen), 1e-9),
        service_s=service_s,
        energy_j=_times(service_s, price.power_w),
        cost_usd=_times(service_s, price.usd_per_s),
    )


def _taken(receipt: Receipt, price: Price) -> Taken:
    service_s = _service_s(receipt)
    return Taken(
        ttft_s=receipt.ttft_ns / 1e9,
        tpot_s=receipt.tpot_ns / 1e9,
        e2e_s=(receipt.ttft_ns + receipt.decode_ns) / 1e9,
        service_s=service_s,
        energy_j=_times(service_s, price.power_w),
        cost_usd=_times(service_s, price.usd_per_s),
    )


def _compared(id: str, taken: list[Taken], from_simulated: bool) -> Compared:
    """`taken`: logged, simulated, changed."""
    logged, simulated, becomes = taken
    was = simulated if from_simulated else logged
    difference = Taken(
        ttft_s=becomes.ttft_s - was.ttft_s,
        tpot_s=becomes.tpot_s - was.tpot_s,
        e2e_s=becomes.e2e_s - was.e2e_s,
        service_s=becomes.service_s - was.service_s,
        energy_j=_less(becomes.energy_j, was.energy_j),
        cost_usd=_less(becomes.cost_usd, was.cost_usd),
    )
    return Compared(id, logged, simulated, becomes, difference)


def _service_s(receipt: Receipt) -> float:
    return (receipt.device_share_ns + receipt.host_share_ns) / 1e9


def _times(amount: float, rate: float | None) -> float | None:
    return None if rate is None else amount * rate


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
