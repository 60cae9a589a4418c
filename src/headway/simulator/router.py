"""Which replica a request goes to. A router sees what a gateway would see: requests and their ends, no lengths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from headway.scheduler.request import Request
from headway.workload.call import WorkloadError

MAX_SESSIONS = 1_000_000


@dataclass(slots=True, eq=False)
class Load:
    """Of one replica, as a gateway counts it."""

    requests: int = 0
    tokens: int = 0
    """Prompt tokens of the requests that have not ended."""
    blocks: int = 0
    """KV blocks that it has."""
    speed: float = 1.0
    """Of prompts, beside the fastest replica of the fleet."""
    replica: int = 0
    pool: int = 0
    is_up: bool = True

    def count(self, prompt_tokens: int, sign: int) -> None:
        """A request comes (1) or has ended (-1)."""
        self.requests += sign
        self.tokens += sign * prompt_tokens


class Router(ABC):
    """Chooses among replicas, and may remember what it chose."""

    @abstractmethod
    def choose(self, request: Request, loads: Sequence[Load]) -> Load:
        """One of `loads`, which are never none."""

    def lost(self, load: Load) -> None:  # noqa: B027 - most have nothing to forget
        """Its replica has lost its cache, and gets nothing until it is among those to choose from again."""


class RoundRobin(Router):
    def __init__(self) -> None:
        self._next = 0

    def choose(self, request: Request, loads: Sequence[Load]) -> Load:
        del request
        chosen = self._next % len(loads)
        self._next = chosen + 1
        return loads[chosen]


class LeastWork(Router):
    """Least time for the prompts of unfinished requests; then fewest requests, then the fastest replica."""

    def choose(self, request: Request, loads: Sequence[Load]) -> Load:
        del request
        return min(loads, key=lambda load: (load.tokens / load.speed, load.requests, -load.speed))


class SessionAffinity(Router):
    """A session stays where its first request went, which is where the least work was."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._homes: OrderedDict[str, Load] = OrderedDict()
        self._max_sessions = max_sessions
        self._new = LeastWork()

    def choose(self, request: Request, loads: Sequence[Load]) -> Load:
        session = request.session
        if session is None:
            return self._new.choose(request, loads)
        home = self._homes.pop(session, None)
        if home is None or not home.is_up:
            home = self._new.choose(request, loads)
        self._homes[session] = home
        if len(self._homes) > self._max_sessions:
            self._homes.popitem(last=False)
        return home


class PrefixAware(Router):
    """Least time for what is not cached of the prompt and for `load_weight` times the tokens that are ahead of it.

    It remembers the keys that it sent to each replica, as many as the replica has blocks, least recently used first
    out: a guess of what is cached there, as a gateway has it.
    """

    def __init__(self, block_size: int, load_weight: float = 0.5) -> None:
        self._block_size = block_size
        self._load_weight = load_weight
        self._seen: dict[int, OrderedDict[bytes, None]] = {}

    def choose(self, request: Request, loads: Sequence[Load]) -> Load:
        keys = request.block_keys[: request.num_prompt_tokens // self._block_size]
        chosen = min(loads, key=lambda load: (self._work(load, request, keys), load.requests, load.replica))
        self._remember(chosen, keys)
        return chosen

    def lost(self, load: Load) -> None:
        self._seen.pop(load.replica, None)

    def _work(self, load: Load, request: Request, keys: Sequence[bytes]) -> float:
        missing = request.num_prompt_tokens - self._cached(load.replica, keys) * self._block_size
        return (missing + self._load_weight * load.tokens) / load.speed

    def _cached(self, replica: int, keys: Sequence[bytes]) -> int:
        """Tails are forgotten before heads, so what is known is a prefix and can be bisected."""
        seen = self._seen.get(replica, ())
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if keys[middle] in seen else (low, middle)
        return low

    def _remember(self, load: Load, keys: Sequence[bytes]) -> None:
        seen = self._seen.setdefault(load.replica, OrderedDict())
        for key in reversed(keys):
            seen[key] = None
            seen.move_to_end(key)
        while len(seen) > load.blocks:
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
