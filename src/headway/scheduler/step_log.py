"""The step log: everything the brain was told, in order, and the digest of everything it decided.

A header comes first, then one record a call. A log is complete: `replay` feeds it to a fresh brain and compares every
decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headway.scheduler.commit import Committed
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import StepOutcome, StepPlan, WakeAt
from headway.scheduler.facts import Fact
from headway.scheduler.refusal import Refusal
from headway.scheduler.request import FinishReason, Request
from headway.scheduler.scheduler import Scheduler, SchedulerStats
from headway.scheduler.sequence import Finished
from headway.scheduler.step_records import (
    VERSION,
    Add,
    AnyRecord,
    Arrived,
    Commit,
    Ended,
    Finish,
    Header,
    Plan,
    Record,
    StepLogError,
    Tell,
    add_record,
    commit_record,
    encoded,
    fact_of,
    outcome_of,
    plan_record,
    read,
    request_of,
    tell_record,
)


class Recorder:
    """A scheduler that writes down every call. Same methods, same results."""

    def __init__(self, scheduler: Scheduler, write: Callable[[bytes], Any], header: Header) -> None:
        self._scheduler = scheduler
        self._write_line = write
        self._write(header)

    def _write(self, record: Record) -> None:
        self._write_line(encoded(record))

    def add(self, request: Request, now_ns: int) -> None:
        refused = None
        try:
            self._scheduler.add(request, now_ns)
        except Refusal as refusal:
            refused = refusal.kind
            raise
        finally:
            self._write(add_record(request, now_ns, refused))

    def cancel(self, request_id: str, now_ns: int) -> bool:
        return self.finish(request_id, "cancelled", now_ns)

    def finish(self, request_id: str, reason: FinishReason, now_ns: int) -> bool:
        self._write(Finish(now_ns, request_id, reason))
        return self._scheduler.finish(request_id, reason, now_ns)

    def arrived(self, transfer: int, ok: bool, now_ns: int) -> None:
        self._write(Arrived(now_ns, transfer, ok))
        self._scheduler.arrived(transfer, ok, now_ns)

    def tell(self, fact: Fact) -> None:
        self._write(tell_record(fact))
        self._scheduler.tell(fact)

    def plan(self, now_ns: int) -> StepPlan | WakeAt | None:
        plan = self._scheduler.plan(now_ns)
        self._write(plan_record(plan, now_ns))
        return plan

    def commit(self, outcome: StepOutcome, now_ns: int) -> Committed:
        self._write(commit_record(outcome, now_ns))
        return self._scheduler.commit(outcome, now_ns)

    def take_ended(self) -> list[Finished]:
        ended = self._scheduler.take_ended()
        for finished in ended:
            self._write(Ended(finished.id, finished.reason, finished.receipt))
        return ended

    def stats(self) -> SchedulerStats:
        return self._scheduler.stats()

    @property
    def is_idle(self) -> bool:
        return self._scheduler.is_idle


def replay(
    lines: Iterable[bytes],
    on_plan: Callable[[StepPlan, int], Any] | None = None,
    on_record: Callable[[AnyRecord, Scheduler], Any] | None = None,
) -> tuple[Scheduler, int]:
    """The brain after the log, and its number of steps. `on_plan` sees each plan and its time, `on_record` each record
    behind the header once the brain has it.

    Raises StepLogError at the first decision that differs.
    """
    records = iter(read(lines))
    first = next(records, None)
    if first is None or not isinstance(first[1], Header):
        raise StepLogError("line 1: a step log begins with a header")
    header = first[1]
    if header.version != VERSION:
        raise StepLogError(f"line 1: version {header.version} where this program reads {VERSION}")
    scheduler = _scheduler(header.config)
    ended: dict[str, Finished] = {}
    steps = 0
    for number, record in records:
        try:
            _feed(scheduler, record, number, ended, on_plan)
        except StepLogError:
            raise
        except (ValueError, OverflowError) as error:
            raise StepLogError(f"line {number}: {error}") from None
        if on_record is not None:
            on_record(record, scheduler)
        steps += isinstance(record, Plan) and record.digest is not None
        ended.update((finished.id, finished) for finished in scheduler.take_ended())
    return scheduler, steps


def _scheduler(config: SchedulerConfig) -> Scheduler:
    try:
        return Scheduler(config)
    except (ValueError, OverflowError, MemoryError) as error:
        raise StepLogError(f"line 1: config: {error or 'out of memory'}") from None


def _feed(
    scheduler: Scheduler,
    record: AnyRecord,
    line: int,
    ended: dict[str, Finished],
    on_plan: Callable[[StepPlan, int], Any] | None,
) -> None:
    match record:
        case Add():
            _expect(line, "refusal", record.refused, _add(scheduler, record))
        case Finish():
            scheduler.finish(record.id, record.reason, record.now_ns)
        case Arrived():
            scheduler.arrived(record.transfer, record.ok, record.now_ns)
        case Tell():
            scheduler.tell(fact_of(record))
        case Plan():
            plan = scheduler.plan(record.now_ns)
            _expect(line, "plan", record, plan_record(plan, record.now_ns))
            if on_plan is not None and isinstance(plan, StepPlan):
                on_plan(plan, record.now_ns)
        case Commit():
            scheduler.commit(outcome_of(record), record.now_ns)
        case Ended():
            finished = ended.pop(record.id, None)
            replayed = None if finished is None else Ended(finished.id, finished.reason, finished.receipt)
            _expect(line, "receipt", record, replayed)
        case Header():
            raise StepLogError(f"line {line}: a second header")


def _expect(line: int, what: str, logged: object, replayed: object) -> None:
    if logged != replayed:
        raise StepLogError(f"line {line}: {what} differs: logged {logged}, replayed {replayed}")


def _add(scheduler: Scheduler, record: Add) -> str | None:
    try:
        scheduler.add(request_of(record), record.now_ns)
    except Refusal as refusal:
        return refusal.kind
    return None
