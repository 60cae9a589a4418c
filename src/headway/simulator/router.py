"""Which replica a request goes to. A router sees what a gateway would see: requests and their ends, no lengths."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.scheduler.request import Request
from headway.workload.call import WorkloadError

MAX_SESSIONS = 1_000_000


@dataclass(slots=True)
class Load:
    """Of one replica, as a gateway counts it."""

    requests: int = 0
    tokens: int = 0
    """Prompt tokens of the requests that have not ended."""
    blocks: int = 0
    """KV blocks that it has."""


class Router(Protocol):
    def choose(self, request: Request, loads: Sequence[Load]) -> int:
        """The index of a replica."""
        ...


class RoundRobin:
    def __init__(self) -> None:
        self._next = 0

    def choose(self, request: Request, loads: Sequence[Load]) -> int:
        del request
        chosen = self._next % len(loads)
        self._next = chosen + 1
        return chosen


class LeastWork:
    """Fewest prompt tokens of unfinished requests; then fewest requests."""

    def choose(self, request: Request, loads: Sequence[Load]) -> int:
        del request
        return min(range(len(loads)), key=lambda i: (loads[i].tokens, loads[i].requests))


class SessionAffinity:
    """A session stays where its first request went, which is where the least work was."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._homes: OrderedDict[str, int] = OrderedDict()
        self._max_sessions = max_sessions
        self._new = LeastWork()

    def choose(self, request: Request, loads: Sequence[Load]) -> int:
        session = request.session
        if session is None:
            return self._new.choose(request, loads)
        home = self._homes.pop(session, None)
        if home is None:
            home = self._new.choose(request, loads)
        self._homes[session] = home
        if len(self._homes) > self._max_sessions:
            self._homes.popitem(last=False)
        return home


class PrefixAware:
    """Most prompt tokens that a replica has seen before, less `load_weight` times the tokens that are ahead there.

    It remembers the keys that it sent to each replica, as many as the replica has blocks, least recently used first
    out: a guess of what is cached there, as a gateway has it.
    """

    def __init__(self, block_size: int, load_weight: float = 0.5) -> None:
        self._block_size = block_size
        self._load_weight = load_weight
        self._seen: list[OrderedDict[bytes, None]] = []

    def choose(self, request: Request, loads: Sequence[Load]) -> int:
        while len(self._seen) < len(loads):
            self._seen.append(OrderedDict())
        keys = request.block_keys[: request.num_prompt_tokens // self._block_size]
        scores = [self._score(i, keys, loads[i]) for i in range(len(loads))]
        chosen = max(range(len(loads)), key=lambda i: (scores[i], -loads[i].requests, -i))
        self._remember(chosen, keys, loads[chosen].blocks)
        return chosen

    def _score(self, replica: int, keys: Sequence[bytes], load: Load) -> float:
        return self._cached(replica, keys) * self._block_size - self._load_weight * load.tokens

    def _cached(self, replica: int, keys: Sequence[bytes]) -> int:
        """Tails are forgotten before heads, so what is known is a prefix and can be bisected."""
        seen = self._seen[replica]
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if keys[middle] in seen else (low, middle)
        return low

    def _remember(self, replica: int, keys: Sequence[bytes], most: int) -> None:
        seen = self._seen[replica]
        for key in reversed(keys):
            seen[key] = None
            seen.move_to_end(key)
        while len(seen) > most:
            seen.popitem(last=False)


ROUTERS = ("round-robin", "least-work", "session", "prefix")


def make_router(name: str, block_size: int) -> Router:
    """Raises WorkloadError for an unknown name."""
    match name:
        case "round-robin":
            return RoundRobin()
        case "least-work":
            return LeastWork()
        case "session":
            return SessionAffinity()
        case "prefix":
            return PrefixAware(block_size)
    raise WorkloadError(f"router must be one of {', '.join(ROUTERS)}, not {name!r}")
