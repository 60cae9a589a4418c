"""Clients: sessions begin, their calls are sent, and others follow the answers that they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from headway.simulator.block_keys import BlockKeys
from headway.simulator.replica import ARRIVAL
from headway.simulator.world import World
from headway.workload.call import Call, Session, Workload, WorkloadError
from headway.workload.progress import Progress


class Client(msgspec.Struct, eq=False):
    """One session in progress."""

    calls: Session
    keys: BlockKeys
    progress: Progress
    region: str = ""
    asked: dict[str, int] = {}
    """Numbers of the calls that are in progress."""

    def following(self, call: Call) -> Call | None:
        """What the same agent will ask next."""
        later = range(self.asked[call.id] + 1, len(self.calls))
        return next((self.calls[number] for number in later if self.calls[number].agent == call.agent), None)


class Clients:
    """Open loop: sessions begin at their own times. Closed loop: as many as `concurrency` are in progress."""

    def __init__(
        self,
        world: World,
        workload: Workload,
        block_size: int,
        send: Callable[[Client, Call], None],
        region: Callable[[], str],
    ) -> None:
        """`region`: the next client's.

        Raises WorkloadError if blocks of the trace and of the fleet do not divide each other.
        """
        BlockKeys(block_size, workload.hash_block_size)
        self._world = world
        self._workload = workload
        self._block_size = block_size
        self._send = send
        self._region = region
        self._sessions: Iterator[Session] = iter(workload.sessions)

    def begin(self) -> None:
        for _ in range(self._workload.concurrency or 1):
            self._next_session()

    def answered(self, client: Client, call: Call) -> None:
        """After a call's end: those of the session that waited for it; in closed loop, the next session."""
        now_ns = self._world.now_ns
        for number in client.progress.ended(client.asked.pop(call.id)):
            self._world.at(now_ns + _ns(client.calls[number].gap_s), ARRIVAL, self._call, client, number)
        if client.progress.is_over and self._workload.concurrency:
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
        keys = BlockKeys(self._block_size, self._workload.hash_block_size)
        client = Client(session, keys, Progress(session), self._region())
        self._world.at(start_ns, ARRIVAL, self._begin, client)

    def _begin(self, client: Client) -> None:
        if not self._workload.concurrency:
            self._next_session()
        self._call(client, 0)

    def _call(self, client: Client, number: int) -> None:
        call = client.calls[number]
        client.asked[call.id] = number
        self._send(client, call)
        following = client.calls[number + 1] if number + 1 < len(client.calls) else None
        if following is not None and following.arrival_s is not None:
            at_ns = max(_ns(following.arrival_s), self._world.now_ns)
            self._world.at(at_ns, ARRIVAL, self._call, client, number + 1)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
