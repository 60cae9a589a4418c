"""The step loop: take messages in, plan, submit, collect, commit, send out.

One thread. Up to `depth` plans are in flight, so that planning can overlap execution where the device runs on its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from headway.engine.intake import to_request
from headway.engine.messages import (
    Began,
    Cancel,
    Drain,
    Ended,
    EngineStats,
    Finish,
    Heartbeat,
    Message,
    Refused,
    Stepped,
    Submit,
    ToEngine,
)
from headway.engine.reply import Replies
from headway.scheduler.contract import Executor, StepOutcome, StepPlan, WakeAt
from headway.scheduler.refusal import Refusal
from headway.scheduler.request import FinishReason, Request

if TYPE_CHECKING:
    from headway.scheduler.commit import Committed
    from headway.scheduler.scheduler import SchedulerStats
    from headway.scheduler.sequence import Finished

HEARTBEAT_S = 2.0
COPY_WAIT_S = 0.005
"""How long the loop sits by transfers when there is nothing to run, until it looks for messages."""


class Carrier(Protocol):
    """Moves KV between the device and slower tiers."""

    def start(self, plan: StepPlan) -> None: ...
    @property
    def is_busy(self) -> bool: ...
    def take_arrived(self, wait_s: float = 0.0) -> list[tuple[int, bool]]: ...


class Brain(Protocol):
    """The scheduler, or the recorder around it."""

    def add(self, request: Request, now_ns: int) -> None: ...
    def cancel(self, request_id: str, now_ns: int) -> bool: ...
    def finish(self, request_id: str, reason: FinishReason, now_ns: int) -> bool: ...
    def arrived(self, transfer: int, ok: bool, now_ns: int) -> None: ...
    def plan(self, now_ns: int) -> StepPlan | WakeAt | None: ...
    def commit(self, outcome: StepOutcome, now_ns: int) -> Committed: ...
    def take_ended(self) -> list[Finished]: ...
    def stats(self) -> SchedulerStats: ...


class Transport(Protocol):
    """The other side of every message. Both calls raise when it is gone."""

    def receive(self, wait_s: float) -> list[ToEngine]: ...
    def send(self, *messages: Message) -> None: ...


class Loop:
    def __init__(
        self,
        brain: Brain,
        executor: Executor,
        transport: Transport,
        clock_ns: Callable[[], int],
        vocab: int,
        depth: int = 1,
        heartbeat_s: float = HEARTBEAT_S,
        carrier: Carrier | None = None,
    ) -> None:
        self._brain = brain
        self._executor = executor
        self._transport = transport
        self._clock_ns = clock_ns
        self._vocab = vocab
        self._depth = depth
        self._heartbeat_s = heartbeat_s
        self._carrier = carrier
        self._in_flight: deque[tuple[StepPlan, int]] = deque()
        """With the time at which each was submitted."""
        self._open: set[str] = set()
        self._replies = Replies()
        self._draining = False

    def run(self) -> None:
        """Returns once everything has ended after Drain. What `transport`, brain or executor raise passes through."""
        wait_s = 0.0
        while self._open or not self._draining:
            for message in self._transport.receive(wait_s):
                self._take(message)
            idle = self._submit()
            step = self._collect()
            self._send(step)
            moving = self._take_arrived(0.0 if step else COPY_WAIT_S)
            wait_s = 0.0 if step or moving else self._sleep_s(idle)

    def _take(self, message: ToEngine) -> None:
        now_ns = self._clock_ns()
        match message:
            case Submit():
                self._add(message, now_ns)
            case Cancel(id=request_id):
                self._brain.cancel(request_id, now_ns)
            case Finish(id=request_id, reason=reason):
                self._brain.finish(request_id, reason, now_ns)
            case Drain():
                self._draining = True

    def _add(self, submit: Submit, now_ns: int) -> None:
        try:
            self._brain.add(to_request(submit, self._vocab, now_ns), now_ns)
        except Refusal as refusal:
            self._transport.send(Refused(submit.id, refusal.kind, str(refusal)))
        else:
            self._open.add(submit.id)

    def _submit(self) -> WakeAt | None:
        while len(self._in_flight) < self._depth:
            plan = self._brain.plan(self._clock_ns())
            if not isinstance(plan, StepPlan):
                return plan
            if plan.admitted:
                self._transport.send(Began([admitted.request.id for admitted in plan.admitted]))
            self._in_flight.append((plan, self._clock_ns()))
            if self._carrier is not None:
                self._carrier.start(plan)
            self._executor.submit(plan)
        return None

    def _collect(self) -> Stepped | None:
        if not self._in_flight:
            return None
        outcome = self._executor.collect()
        plan, submitted_ns = self._in_flight.popleft()
        done_ns = self._clock_ns()
        outcome = replace(outcome, submitted_ns=submitted_ns, done_ns=done_ns)
        committed = self._brain.commit(outcome, done_ns)
        return Stepped(self._replies.rows(plan, outcome, committed), self._stats())

    def _take_arrived(self, wait_s: float) -> bool:
        """Whether KV is, or was, on its way."""
        carrier = self._carrier
        if carrier is None or not carrier.is_busy:
            return False
        for transfer, ok in carrier.take_arrived(wait_s):
            self._brain.arrived(transfer, ok, self._clock_ns())
        return True

    def _send(self, step: Stepped | None) -> None:
        messages: list[Message] = [step] if step else []
        for finished in self._brain.take_ended():
            self._open.discard(finished.id)
            self._replies.forget(finished.id)
            messages.append(Ended(finished.id, finished.reason, finished.receipt, finished.error))
        if messages:
            self._transport.send(*messages)

    def _sleep_s(self, idle: WakeAt | None) -> float:
        """Says that the engine is alive, since it may now be silent for a while."""
        stats = self._stats()
        self._transport.send(Heartbeat(stats.steps_total, stats))
        if idle is None:
            return self._heartbeat_s
        return min(self._heartbeat_s, max(0, idle.time_ns - self._clock_ns()) / 1e9)

    def _stats(self) -> EngineStats:
        return msgspec.convert(self._brain.stats(), EngineStats, from_attributes=True)

    def describe(self) -> str:
        """For the dump of a broken engine. Names plans and requests, never what is in them."""
        plans = ", ".join(f"step {plan.number} of {len(plan.slots)} rows" for plan, _ in self._in_flight) or "no step"
        return f"{plans} in flight; {len(self._open)} open requests; {self._brain.stats()}"
