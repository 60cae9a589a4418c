"""Clients, a router and replicas in one world: sessions come in, calls go out to replicas, records come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.receipt import Receipt
from headway.scheduler.refusal import Refusal
from headway.scheduler.request import Request
from headway.scheduler.sequence import Finished
from headway.simulator.block_keys import BlockKeys
from headway.simulator.executor import STOP, Timer
from headway.simulator.observer import Observer
from headway.simulator.record import Record
from headway.simulator.replica import ARRIVAL, Replica
from headway.simulator.router import Load, Router
from headway.simulator.world import World
from headway.workload.call import Call, Session, Workload, WorkloadError


@dataclass(frozen=True, slots=True)
class FleetConfig:
    num_replicas: int
    scheduler: SchedulerConfig
    max_output_tokens: int | None = None
    """The limit of calls that have none of their own; None: what the context allows. True lengths are never told."""
    jumps: bool = True
    """Off: every step is planned. The results are the same, later."""


@dataclass(slots=True)
class _Client:
    """One session in progress."""

    calls: Session
    keys: BlockKeys
    next: int = 0


@dataclass(frozen=True, slots=True)
class _InProgress:
    client: _Client
    call: Call
    replica: int
    arrival_ns: int


class Fleet:
    """Law: every call of the workload is recorded exactly once, unless the run is interrupted."""

    def __init__(
        self,
        config: FleetConfig,
        timer: Timer,
        router: Router,
        on_record: Callable[[Record], None],
        observer: Observer | None = None,
    ) -> None:
        if config.num_replicas < 1:
            raise WorkloadError(f"replicas must be at least 1, not {config.num_replicas}")
        self.config = config
        self.world = World()
        self.router = router
        self._on_record = on_record
        self.replicas = [
            Replica(i, self.world, config.scheduler, timer, self._ended, config.jumps, observer)
            for i in range(config.num_replicas)
        ]
        blocks = config.scheduler.groups[0].num_blocks
        self._loads = [Load(blocks=blocks) for _ in self.replicas]
        self._in_progress: dict[str, _InProgress] = {}
        self._sessions: Iterator[Session] = iter(())
        self._workload = Workload("", ())

    def run(self, workload: Workload) -> None:
        """To the end of the workload. Raises WorkloadError for a bad one; then, and on KeyboardInterrupt, what was
        recorded so far stays good.
        """
        BlockKeys(self.config.scheduler.block_size, workload.hash_block_size)
        self._workload = workload
        self._sessions = iter(workload.sessions)
        for _ in range(workload.concurrency or 1):
            self._next_session()
        self.world.run()

    # Clients

    def _next_session(self, after_ns: int = 0) -> None:
        """Open loop: the next to arrive, which will fetch its successor. Closed loop: one more client begins."""
        session = next(self._sessions, None)
        if session is None:
            return
        first = session[0]
        start_ns = _ns(first.gap_s) + after_ns if after_ns else _ns(first.arrival_s or 0.0)
        if start_ns < self.world.now_ns:
            raise WorkloadError(f"session of call {first.id}: arrives at {first.arrival_s} s, before the one before it")
        client = _Client(session, BlockKeys(self.config.scheduler.block_size, self._workload.hash_block_size))
        self.world.at(start_ns, ARRIVAL, self._begin, client)

    def _begin(self, client: _Client) -> None:
        if not self._workload.concurrency:
            self._next_session()
        self._call(client)

    def _call(self, client: _Client) -> None:
        """The client's next call arrives."""
        call = client.calls[client.next]
        client.next += 1
        self._send(client, call)
        following = client.calls[client.next] if client.next < len(client.calls) else None
        if following is not None and following.arrival_s is not None:
            self.world.at(max(_ns(following.arrival_s), self.world.now_ns), ARRIVAL, self._call, client)

    def _send(self, client: _Client, call: Call) -> None:
        now_ns = self.world.now_ns
        if call.id in self._in_progress:
            raise WorkloadError(f"call {call.id}: another with this id is in progress")
        request = self._request(client, call)
        chosen = self.router.choose(request, self._loads)
        try:
            self.replicas[chosen].add(request, call.num_output_tokens, self._answer_keys(client, call, request))
        except Refusal as refusal:
            self._on_record(Record(call, chosen, now_ns, now_ns, refusal.kind, Receipt(), str(refusal)))
            self._proceed(client)
            return
        self._in_progress[call.id] = _InProgress(client, call, chosen, now_ns)
        self._count(chosen, call, 1)

    def _request(self, client: _Client, call: Call) -> Request:
        scheduler = self.config.scheduler
        room = scheduler.max_context - call.num_input_tokens
        limit = call.max_output_tokens or self.config.max_output_tokens
        keys: tuple[bytes, ...] = ()
        if call.hash_ids and scheduler.prefix_caching:
            keys = client.keys.keys(call.hash_ids, call.num_input_tokens)
        return Request(
            id=call.id,
            num_prompt_tokens=call.num_input_tokens,
            max_tokens=max(1, room if limit is None else min(room, limit)),
            num_tokens=call.num_input_tokens,
            block_keys=keys,
            stop_token_ids=(STOP,),
            session=call.session,
        )

    def _answer_keys(self, client: _Client, call: Call, request: Request) -> tuple[bytes, ...]:
        """Of prompt and answer together: where the session's next call goes on from them, it says what they are."""
        following = client.calls[client.next] if client.next < len(client.calls) else None
        if following is None or not request.block_keys:
            return ()
        known = min(following.num_input_tokens, call.num_input_tokens + call.num_output_tokens)
        keys = client.keys.keys(following.hash_ids, known)
        return keys if keys[: len(request.block_keys)] == request.block_keys else ()

    # Ends

    def _ended(self, finished: Finished) -> None:
        done = self._in_progress.pop(finished.id)
        self._count(done.replica, done.call, -1)
        self._on_record(
            Record(done.call, done.replica, done.arrival_ns, self.world.now_ns, finished.reason, finished.receipt)
        )
        self._proceed(done.client)

    def _proceed(self, client: _Client) -> None:
        """After a call's end: the session's next one, if it waits for that; in closed loop, the next session."""
        now_ns = self.world.now_ns
        if client.next < len(client.calls):
            following = client.calls[client.next]
            if following.arrival_s is None:
                self.world.at(now_ns + _ns(following.gap_s), ARRIVAL, self._call, client)
        elif self._workload.concurrency:
            self._next_session(after_ns=now_ns)

    def _count(self, replica: int, call: Call, sign: int) -> None:
        load = self._loads[replica]
        load.requests += sign
        load.tokens += sign * call.num_input_tokens


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
