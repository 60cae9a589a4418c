"""The link to the engine process: it keeps every request alive across the deaths of engines.

An engine that dies, hangs or sends garbage is killed and started again, and each unfinished request goes to the new
one as prompt plus emitted tokens. Draws are keyed by position, so the continuation is the one that would have come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headway.engine.messages import (
    Began,
    Cancel,
    Drain,
    Ended,
    EngineStats,
    Finish,
    FromEngine,
    Heartbeat,
    Ready,
    Refused,
    Stepped,
    Submit,
    frame,
)
from headway.scheduler.request import FinishReason
from headway.server.engine import EngineError, EngineFailed, Expired, InvalidRequest, NeverFits, Overloaded
from headway.server.engine_child import EngineChild, EngineUnusable
from headway.server.engine_generation import LinkedGeneration
from headway.server.engine_outbox import Outbox
from headway.server.engine_patience import Backoff, Patience
from headway.server.engine_room import QueueLimits, WaitingRoom
from headway.server.engine_sequence import OpenSequence
from headway.server.engine_totals import Totals

log = logging.getLogger(__name__)


class EngineLink:
    """An `EngineClient` for one engine process, started by `command` with `--life L --fd N` appended.

    For one event loop.
    """

    def __init__(
        self,
        command: Sequence[str],
        limits: QueueLimits | None = None,
        patience: Patience | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self._env = tuple(command), env
        self._patience = patience or Patience()
        self._limits = limits or QueueLimits()
        self._room = WaitingRoom(self._limits)
        self._open: dict[str, OpenSequence] = {}
        """In order of arrival."""
        self._outbox = Outbox()
        self._cancelled: set[str] = set()
        """Those of which the present engine has not said its last word."""
        self._totals = Totals()
        self._child: EngineChild | None = None
        self._info: Ready | None = None
        self._restarts = 0
        self._hopeless = False
        """No engine has come up for a while."""
        self._closing = False
        self._nothing_open = asyncio.Event()
        self._nothing_open.set()
        self._supervisor: asyncio.Task[None] | None = None

    # What the HTTP side asks

    @property
    def info(self) -> Ready:
        if self._info is None:
            raise RuntimeError("the engine has not been ready yet")
        return self._info

    @property
    def stats(self) -> EngineStats:
        return self._totals.stats(len(self._outbox))

    @property
    def is_ready(self) -> bool:
        return self._child is not None and not self._closing

    @property
    def restarts_total(self) -> int:
        return self._restarts

    @property
    def engine_pid(self) -> int | None:
        """Of the process that serves now; None while there is none."""
        return self._child.pid if self._child else None

    def generate(self, submit: Submit) -> LinkedGeneration:
        """Raises Overloaded when the waiting room is full, no engine can be had, or the server is shutting down."""
        if self._closing:
            raise Overloaded("the server is shutting down", self._limits.retry_after_s)
        if self._hopeless:
            raise Overloaded("no engine is up", self._patience.max_backoff_s)
        if submit.id in self._open or submit.id in self._cancelled:
            raise InvalidRequest(f"the id {submit.id!r} is in use")
        try:
            frame(submit)
        except (OverflowError, ValueError) as error:
            # Once it is open it would be sent to every engine, and its failure would be the loss of each.
            raise InvalidRequest(f"it can't be sent to an engine: {error}") from None
        sequence = OpenSequence(submit)
        self._room.enter(sequence.num_prompt_tokens, self._info.max_running if self._info else 0)
        self._open[submit.id] = sequence
        self._nothing_open.clear()
        if submit.timeout_ns is not None:
            loop = asyncio.get_running_loop()
            sequence.expiry = loop.call_later(submit.timeout_ns / 1e9, self._expire, sequence)
        self._outbox.put(sequence)
        self._pump()
        return LinkedGeneration(sequence, self._cancel, self._finish)

    # Life and death

    async def start(self) -> None:
        """Returns when the engine is ready. Raises EngineUnusable."""
        child = await self._start_child()
        self._supervisor = asyncio.create_task(self._supervise(child))

    async def drain(self, timeout_s: float) -> bool:
        """Takes nothing new and waits until all that is open has ended; False when the time was not enough."""
        self._closing = True
        try:
            await asyncio.wait_for(self._nothing_open.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Ends the engine, and what is still open as EngineFailed."""
        self._closing = True
        for sequence in list(self._open.values()):
            self._tell(sequence, Cancel(sequence.id))
            self._close(sequence, EngineFailed("the server was stopped"))
        if self._supervisor is not None:
            self._supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervisor
        child, self._child = self._child, None
        if child is not None:
            child.send(Drain())
            await asyncio.wait([child.lost], timeout=self._patience.exit_s)
            await child.end()

    async def _supervise(self, child: EngineChild) -> None:
        backoff = Backoff(self._patience)
        while True:
            with backoff.timing():
                await self._watch(child)
            self._lose_engine()
            reason = await child.end()
            log.error("lost an engine: %s; %d open requests go on in the next one", reason, len(self._open))
            child = await self._restart(backoff)

    async def _watch(self, child: EngineChild) -> None:
        """Until the engine is lost. Counts quiet intervals rather than time, in which this process may have slept."""
        quiet_s, interval_s = 0.0, self._patience.stall_s / 10
        while not child.lost.done():
            await asyncio.wait([child.lost], timeout=interval_s)
            quiet_s = 0.0 if child.heard or not self._open else quiet_s + interval_s
            child.heard = False
            if quiet_s >= self._patience.stall_s:
                child.lose(f"the engine had work and said nothing for {self._patience.stall_s:g} s")

    async def _restart(self, backoff: Backoff) -> EngineChild:
        failures = 0
        while True:
            await asyncio.sleep(backoff.next_s())
            self._restarts += 1
            try:
                return await self._start_child()
            except EngineUnusable as unusable:
                failures += 1
                log.error("no engine: %s", unusable)
                if failures >= self._patience.failed_starts:
                    self._give_up(str(unusable))

    async def _start_child(self) -> EngineChild:
        child = await EngineChild.spawn(self._command, self._restarts, self._env, self._receive, self._pump)
        try:
            self._info = await child.greet(self._patience.start_s)
        except BaseException:
            await child.end()
            raise
        self._hopeless = False
        self._child = child
        self._pump()
        return child

    def _lose_engine(self) -> None:
        self._child = None
        self._totals.engine_died()
        self._cancelled.clear()
        for sequence in list(self._open.values()):
            reason = sequence.settled()
            if reason is not None:
                self._close(sequence, sequence.ending_without_engine(reason))
        for sequence in self._outbox.engine_died(self._open.values()):
            self._close(sequence, EngineFailed(f"{sequence.id}: engines died while it was running by itself"))
        for sequence in self._open.values():
            sequence.sent = sequence.on_board = sequence.drew = False

    def _give_up(self, reason: str) -> None:
        """Requests stop waiting for an engine; the attempts to start one go on."""
        self._hopeless = True
        for sequence in list(self._open.values()):
            if sequence.begun:
                self._close(sequence, EngineFailed(f"no engine is up: {reason}"))
            else:
                self._close(sequence, Overloaded("no engine is up", self._patience.max_backoff_s))

    # To the engine

    def _pump(self) -> None:
        """Sends what may be sent, as long as the engine reads it."""
        while self._child is not None and self._child.writable:
            sequence = self._outbox.next()
            if sequence is None:
                return
            sequence.sent = True
            self._child.send(sequence.submission())

    def _tell(self, sequence: OpenSequence, message: Cancel | Finish) -> None:
        if self._child is not None and sequence.sent:
            self._child.send(message)

    def _cancel(self, sequence: OpenSequence) -> None:
        if sequence.inbox.closed:
            return
        self._tell(sequence, Cancel(sequence.id))
        if sequence.sent:
            self._cancelled.add(sequence.id)
        self._close(sequence, None)

    def _finish(self, sequence: OpenSequence, reason: FinishReason) -> None:
        if sequence.inbox.closed or sequence.finishing:
            return
        sequence.finishing = reason
        if sequence.sent:
            self._tell(sequence, Finish(sequence.id, reason))
        else:
            self._close(sequence, sequence.ending_without_engine(reason))

    def _expire(self, sequence: OpenSequence) -> None:
        if sequence.begun or sequence.inbox.closed:
            return
        self._tell(sequence, Cancel(sequence.id))
        if sequence.sent:
            self._cancelled.add(sequence.id)
        self._close(sequence, Expired("it was still queued at its deadline"))

    # From the engine

    def _receive(self, message: FromEngine) -> None:
        match message:
            case Stepped(rows=rows, stats=stats):
                self._totals.update(stats)
                for row in rows:
                    sequence = self._open.get(row.id)
                    if sequence is not None:
                        sequence.take(row)
                        if row.token_ids:
                            self._outbox.clear(sequence)
                self._pump()
            case Heartbeat(stats=stats):
                self._totals.update(stats)
            case Began(ids=ids):
                for request_id in ids:
                    self._begin(request_id)
            case Ended(id=request_id) | Refused(id=request_id):
                self._cancelled.discard(request_id)
                if request_id in self._open:
                    self._last_word(self._open[request_id], message)

    def _begin(self, request_id: str) -> None:
        sequence = self._open.get(request_id)
        if sequence is None:
            return
        sequence.on_board = True
        if not sequence.begun:
            sequence.begun = True
            self._room.begin(sequence.num_prompt_tokens)

    def _last_word(self, sequence: OpenSequence, message: Ended | Refused) -> None:
        match message:
            case Refused():
                self._close(sequence, _refusal(message, sequence.begun, self._limits.retry_after_s))
            case Ended(reason="expired"):
                self._close(sequence, Expired("it was still queued at its deadline"))
            case Ended(reason="error"):
                self._close(sequence, EngineFailed(message.error or "the engine gave no reason"))
            case Ended():
                self._close(sequence, sequence.ending(message))

    def _close(self, sequence: OpenSequence, last: Ended | EngineError | None) -> None:
        del self._open[sequence.id]
        self._room.leave(sequence.num_prompt_tokens, sequence.begun)
        self._outbox.remove(sequence)
        if sequence.expiry is not None:
            sequence.expiry.cancel()
        sequence.inbox.close(last)
        if not self._open:
            self._nothing_open.set()
        self._pump()


def _refusal(refused: Refused, begun: bool, retry_after_s: float) -> EngineError:
    if begun:
        return EngineFailed(f"the next engine refused to go on: {refused.reason}")
    match refused.kind:
        case "never_fits":
            return NeverFits(refused.reason)
        case "queue_full":
            return Overloaded(refused.reason, retry_after_s)
        case "invalid":
            return InvalidRequest(refused.reason)
