"""Who watches a run as it goes; without one, nothing is paid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headway.scheduler.contract import StepOutcome, StepPlan
    from headway.scheduler.scheduler import SchedulerStats
    from headway.simulator.record import Record


class Observer(Protocol):
    """Told in the order of the virtual clock; changes nothing."""

    def planned(self, replica: int, plan: StepPlan, now_ns: int) -> None:
        """A step begins."""

    def stepped(
        self, replica: int, outcome: StepOutcome, now_ns: int, stats: SchedulerStats, bound_ns: Sequence[int]
    ) -> None:
        """The oldest step that was begun is over and committed. `bound_ns`: all of the replica's busy time so far, by
        what bound it (BOUNDS).
        """

    def arrived(self, replica: int, transfer: int, ok: bool, now_ns: int, began_ns: int | None = None) -> None:
        """A load or save of one of the plans has ended. `began_ns`: None, when it was planned."""

    def recorded(self, record: Record) -> None:
        """A call has ended or was refused."""


class Observers:
    """Several as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def planned(self, replica: int, plan: StepPlan, now_ns: int) -> None:
        for observer in self._observers:
            observer.planned(replica, plan, now_ns)

    def stepped(
        self, replica: int, outcome: StepOutcome, now_ns: int, stats: SchedulerStats, bound_ns: Sequence[int]
    ) -> None:
        for observer in self._observers:
            observer.stepped(replica, outcome, now_ns, stats, bound_ns)

    def arrived(self, replica: int, transfer: int, ok: bool, now_ns: int, began_ns: int | None = None) -> None:
        for observer in self._observers:
            observer.arrived(replica, transfer, ok, now_ns, began_ns)

    def recorded(self, record: Record) -> None:
        for observer in self._observers:
            observer.recorded(record)


def together(*observers: Observer | None) -> Observer | None:
    """Those that are there."""
    present = [observer for observer in observers if observer is not None]
    return Observers(*present) if len(present) > 1 else present[0] if present else None
