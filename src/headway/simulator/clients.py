"""Clients: sessions begin, their calls are sent, and the next one follows the answer to the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headway.simulator.block_keys import BlockKeys
from headway.simulator.replica import ARRIVAL
from headway.simulator.world import World
from headway.workload.call import Call, Session, Workload, WorkloadError


@dataclass(slots=True, eq=False)
class Client:
    """One session in progress."""

    calls: Session
    keys: BlockKeys
    next: int = 0

    @property
    def following(self) -> Call | None:
        """What it will ask next."""
        return self.calls[self.next] if self.next < len(self.calls) else None


class Clients:
    """Open loop: sessions begin at their own times. Closed loop: as many as `concurrency` are in progress."""

    def __init__(self, world: World, workload: Workload, block_size: int, ask: Callable[[Client, Call], None]) -> None:
        """Raises WorkloadError if blocks of the trace and of the fleet do not divide each other."""
        BlockKeys(block_size, workload.hash_block_size)
        self._world = world
        self._workload = workload
        self._block_size = block_size
        self._ask = ask
        self._sessions: Iterator[Session] = iter(workload.sessions)

    def begin(self) -> None:
        for _ in range(self._workload.concurrency or 1):
            self._next_session()

    def answered(self, client: Client) -> None:
        """After a call's end: the session's next one, if it waits for that; in closed loop, the next session."""
        now_ns = self._world.now_ns
        following = client.following
        if following is not None:
            if following.arrival_s is None:
                self._world.at(now_ns + _ns(following.gap_s), ARRIVAL, self._call, client)
        elif self._workload.concurrency:
            self._next_session(after_ns=now_ns)

    def _next_session(self, after_ns: int = 0) -> None:
        """Open loop: the next to arrive, which will fetch its successor. Closed loop: one more client begins."""
        session = next(self._sessions, None)
        if session is None:
            return
        first = session[0]
        start_ns = _ns(first.gap_s) + after_ns if after_ns else _ns(first.arrival_s or 0.0)
        if start_ns < self._world.now_ns:
            raise WorkloadError(f"session of call {first.id}: arrives at {first.arrival_s} s, before the one before it")
        client = Client(session, BlockKeys(self._block_size, self._workload.hash_block_size))
        self._world.at(start_ns, ARRIVAL, self._begin, client)

    def _begin(self, client: Client) -> None:
        if not self._workload.concurrency:
            self._next_session()
        self._call(client)

    def _call(self, client: Client) -> None:
        """The client's next call is sent."""
        call = client.calls[client.next]
        client.next += 1
        self._ask(client, call)
        following = client.following
        if following is not None and following.arrival_s is not None:
            self._world.at(max(_ns(following.arrival_s), self._world.now_ns), ARRIVAL, self._call, client)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
