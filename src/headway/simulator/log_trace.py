"""The trace events of a real run, from its step log."""

from __future__ import annotations

from headway.scheduler.contract import StepOutcome, StepPlan, ints
from headway.scheduler.scheduler import Scheduler
from headway.scheduler.step_records import Add, AnyRecord, Arrived, Commit, Ended, Header, Tell
from headway.simulator.trace_out import TraceOut


class LogTrace:
    """Sees a log while it is replayed. A step lasts from its plan to its commit; times count from the first record."""

    def __init__(self, out: TraceOut) -> None:
        self._out = out
        self._first_ns: int | None = None
        self._now_ns = 0
        self._adds: dict[str, tuple[Add, int]] = {}

    def planned(self, plan: StepPlan, now_ns: int) -> None:
        self._out.planned(0, plan, self._since_start(now_ns))

    def fed(self, record: AnyRecord, scheduler: Scheduler) -> None:
        if not isinstance(record, Header | Tell | Ended):
            self._now_ns = self._since_start(record.now_ns)
        match record:
            case Add(refused=None):
                self._adds[record.id] = (record, self._now_ns)
            case Arrived():
                self._out.arrived(0, record.transfer, record.ok, self._now_ns)
            case Commit():
                outcome = StepOutcome(record.number, ints(), steps=record.steps, device_ns=record.device_ns)
                self._out.stepped(0, outcome, self._now_ns, scheduler.stats(), ())
            case Ended():
                add, arrival_ns = self._adds.pop(record.id)
                args = {} if add.session is None else {"session": add.session}
                self._out.request(0, add.id, arrival_ns, self._now_ns, record.reason, record.receipt, args)

    def _since_start(self, now_ns: int) -> int:
        self._first_ns = now_ns if self._first_ns is None else self._first_ns
        return now_ns - self._first_ns
