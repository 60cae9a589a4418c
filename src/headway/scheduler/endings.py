"""How sequences leave their slot: for good, or to queue again. Law: every request ends exactly once."""

from __future__ import annotations

from headway.scheduler.block_keys import SessionChains
from headway.scheduler.claims import Claims
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.request import FinishReason
from headway.scheduler.running import Running
from headway.scheduler.sequence import QUEUED, Finished, Sequence, Status
from headway.scheduler.transfers import Transfers
from headway.scheduler.waiting import WaitingQueue


class Endings:
    def __init__(
        self,
        config: SchedulerConfig,
        queue: WaitingQueue,
        running: Running,
        claims: Claims,
        transfers: Transfers,
        sessions: SessionChains,
    ) -> None:
        self._config = config
        self._queue = queue
        self._running = running
        self._claims = claims
        self._transfers = transfers
        self._sessions = sessions
        self._ended: list[Finished] = []
        self.alive: dict[str, Sequence] = {}
        """Every request that has not ended, by its id."""
        self.preemptions = 0

    def take(self) -> list[Finished]:
        """Requests that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def end(self, sequence: Sequence, reason: FinishReason, now_ns: int) -> None:
        sequence.reason = reason
        if sequence.status in QUEUED:
            self._dequeue(sequence)
            self._finished(sequence, now_ns)
            return
        if sequence.status is Status.PREEMPTING:
            sequence.status = Status.ENDING
            return
        self.requeue(self._claims.lapse(sequence))
        if self._running.leave(sequence, Status.ENDING):
            self._finished(sequence, now_ns)

    def preempt(self, victim: Sequence) -> None:
        victim.preemptions += 1
        self.preemptions += 1
        self.requeue(self._claims.lapse(victim))
        if self._running.leave(victim, Status.PREEMPTING):
            self._queue.enter(victim)

    def committed(self, now_ns: int) -> None:
        """Who waited for plans in flight, and has no more of them, leaves now."""
        for sequence in self._running.left():
            if sequence.status is Status.PREEMPTING:
                self._queue.enter(sequence)
            else:
                self._finished(sequence, now_ns)

    def pass_deadlines(self, now_ns: int) -> None:
        for sequence in self._queue.expired(now_ns):
            self.end(sequence, "expired", now_ns)
        for sequence in self._transfers.timed_out(now_ns):
            self.loaded(sequence)

    def loaded(self, sequence: Sequence) -> None:
        """It need not wait for its load any more, whatever became of that."""
        self.requeue(self._claims.lapse(sequence))
        self._queue.requeue(sequence)

    def requeue(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            self._queue.requeue(sequence)

    def _dequeue(self, sequence: Sequence) -> None:
        if sequence.status is Status.PARKED:
            self._claims.unpark(sequence)
        if sequence.status is Status.LOADING:
            self._transfers.abandon(sequence)
            self.requeue(self._claims.lapse(sequence))
        sequence.status = Status.ENDED
        self._queue.leave(sequence)

    def _finished(self, sequence: Sequence, now_ns: int) -> None:
        sequence.status = Status.ENDED
        request = sequence.request
        del self.alive[request.id]
        self._transfers.saves.ended(sequence.keys[: sequence.published])
        if request.session is not None and self._config.token_ids and sequence.keys:
            self._sessions.remember(request.session, request.salt, sequence.tokens, sequence.keys)
        assert sequence.reason is not None  # noqa: S101 - `end` sets it
        self._ended.append(Finished(request.id, sequence.reason, sequence.receipt(now_ns), sequence.error))
