"""When requests go out: open loop at the times of the workload, closed loop as others end, sessions with their gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from headway.bench.record import Record
from headway.workload.call import Call, Session, Workload, start_s
from headway.workload.progress import Progress

PREPARE_S = 0.5
"""How long before its time a session is taken up, so that its first prompt is ready when it is due."""

Prepare = Callable[[Call], bytes]
Send = Callable[[Call, bytes, float], Awaitable[Record]]
"""(call, body, scheduled_s) → what happened."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a workload is driven."""

    think: float = 1.0
    """Gaps within sessions last so many times as long."""
    duration_s: float | None = None
    """Nothing is sent after this; what is under way may end."""
    max_open: int = 20_000
    """Sessions in progress. Open loop beyond it: calls are `unsent`."""


@dataclass(slots=True)
class _Dialogue:
    """A session in progress: over when one of its calls has failed."""

    session: Session
    progress: Progress
    num_sent: int = 0
    failed: bool = False
    last: Record | None = None
    """Once a call has failed, that one."""

    def heard(self, record: Record) -> None:
        if not self.failed:
            self.last, self.failed = record, record.outcome != "ok"


class Load:
    """Drives one workload once. `records` grows as answers end, so an interrupted run keeps what is done."""

    def __init__(self, workload: Workload, pace: Pace, prepare: Prepare, send: Send) -> None:
        self._workload = workload
        self._pace = pace
        self._prepare = prepare
        self._send = send
        self.records: list[Record] = []
        self.start_s = 0.0
        self.num_started = 0
        self.num_abandoned = 0
        """Calls of sessions that ended early because a call had failed."""
        self._open: dict[int, tuple[Call, float]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Until all is answered, or `stop` is set: then what is under way is given up. Raises WorkloadError."""
        self.start_s = asyncio.get_running_loop().time()
        if stop.is_set():
            return
        closed = self._workload.concurrency is not None
        driving = asyncio.ensure_future(self._closed_loop() if closed else self._open_loop())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((driving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not driving.done():
                driving.cancel()
            await asyncio.gather(driving, return_exceptions=stop.is_set())
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            stopping.cancel()
            driving.cancel()
            self._give_up()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time() - self.start_s

    async def _until(self, at_s: float) -> None:
        delay_s = at_s - self._now_s()
        if delay_s > 0:
            await asyncio.sleep(delay_s)

    async def _closed_loop(self) -> None:
        sessions = iter(self._workload.sessions)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workload.concurrency or 1):
                group.create_task(self._worker(sessions))

    async def _worker(self, sessions: Iterator[Session]) -> None:
        previous_end_s: float | None = None
        while (session := next(sessions, None)) is not None:
            pause_s = session[0].gap_s * self._pace.think
            due_s = start_s(session) if previous_end_s is None else previous_end_s + pause_s
            last = await self._session(session, due_s)
            if last is None:
                return
            previous_end_s = self._now_s() + _back_off_s(last)

    async def _open_loop(self) -> None:
        async with asyncio.TaskGroup() as group:
            open_tasks: set[asyncio.Task[Record | None]] = set()
            for session in self._workload.sessions:
                due_s = start_s(session)
                if self._past_end(due_s):
                    break
                await self._until(due_s - PREPARE_S)
                if len(open_tasks) >= self._pace.max_open:
                    self._unsent(session[0], due_s)
                    continue
                task = group.create_task(self._session(session, due_s))
                open_tasks.add(task)
                task.add_done_callback(open_tasks.discard)

    async def _session(self, session: Session, first_due_s: float) -> Record | None:
        """The last record; None when time was over before the first call."""
        dialogue = _Dialogue(session, Progress(session))
        async with asyncio.TaskGroup() as group:
            await self._ask(dialogue, 0, first_due_s, group)
        if dialogue.failed:
            self.num_abandoned += len(session) - dialogue.num_sent
        return dialogue.last

    async def _ask(self, dialogue: _Dialogue, number: int, due_s: float, group: asyncio.TaskGroup) -> None:
        """A call, and those that wait for it: the first here, others beside it."""
        session = dialogue.session
        while not self._past_end(due_s):
            body = self._prepare(session[number])
            await self._until(due_s)
            if dialogue.failed:
                return
            dialogue.num_sent += 1
            # A later call with a time of its own does not wait for this one.
            follower = session[number + 1] if number + 1 < len(session) else None
            if follower is not None and follower.arrival_s is not None:
                group.create_task(self._ask(dialogue, number + 1, follower.arrival_s, group))
            dialogue.heard(await self._one(session[number], body, due_s))
            free = dialogue.progress.ended(number)
            if not free or dialogue.failed:
                return
            due = [(n, self._now_s() + session[n].gap_s * self._pace.think) for n in free]
            for other, other_due_s in due[1:]:
                group.create_task(self._ask(dialogue, other, other_due_s, group))
            number, due_s = due[0]

    async def _one(self, call: Call, body: bytes, due_s: float) -> Record:
        self.num_started += 1
        key = self.num_started
        self._open[key] = (call, due_s)
        record = await self._send(call, body, due_s)
        del self._open[key]
        self.records.append(record)
        return record

    def _past_end(self, at_s: float) -> bool:
        return self._pace.duration_s is not None and at_s >= self._pace.duration_s

    def _unsent(self, call: Call, due_s: float) -> None:
        self.records.append(not_asked(call, "unsent", due_s, due_s, 0.0))

    def _give_up(self) -> None:
        now_s = self._now_s()
        for call, due_s in self._open.values():
            self.records.append(not_asked(call, "interrupted", due_s, due_s, max(0.0, now_s - due_s)))
        self._open.clear()


def _back_off_s(last: Record) -> float:
    """A client that was turned away waits as it was told, or a closed loop would become a flood."""
    if last.outcome in ("ok", "timeout"):
        return 0.0
    return min(1.0 if last.retry_after_s is None else last.retry_after_s, 60.0)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def not_asked(call: Call, outcome: str, due_s: float, sent_s: float, closed_s: float) -> Record:
    """The record of a call without an answer for a reason of our own."""
    return Record(
        id=call.id,
        session=call.session,
        turn=call.turn,
        outcome="unsent" if outcome == "unsent" else "interrupted",
        asked_input_tokens=call.num_input_tokens,
        asked_output_tokens=call.num_output_tokens,
        scheduled_s=due_s,
        sent_s=sent_s,
        closed_s=closed_s,
    )
