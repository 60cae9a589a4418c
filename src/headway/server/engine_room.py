"""The waiting room: how many requests and tokens may wait for a seat before the next one is sent away."""

from __future__ import annotations

from dataclasses import dataclass

from headway.server.engine import Overloaded


@dataclass(frozen=True, slots=True)
class QueueLimits:
    max_requests: int = 4096
    max_tokens: int = 4_000_000
    """Prompt tokens of all that wait. One request alone is never too long to wait."""
    retry_after_s: float = 1.0


class WaitingRoom:
    """Counts the open requests: those that have begun, and those that have not and their tokens."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._begun = 0
        self._waiting = 0
        self._tokens = 0

    def enter(self, num_tokens: int, seats: int) -> None:
        """Raises Overloaded. Requests that could begin at once, because of `seats` some are free, are not waiting."""
        limits = self._limits
        queued = self._waiting - max(0, seats - self._begun)
        if queued >= limits.max_requests:
            raise Overloaded(f"{queued} requests are waiting, the most allowed", limits.retry_after_s)
        if self._waiting and self._tokens + num_tokens > limits.max_tokens:
            raise Overloaded(
                f"{self._tokens} tokens are waiting and {num_tokens} more would pass the limit of {limits.max_tokens}",
                limits.retry_after_s,
            )
        self._waiting += 1
        self._tokens += num_tokens

    def begin(self, num_tokens: int) -> None:
        self._waiting -= 1
        self._tokens -= num_tokens
        self._begun += 1

    def leave(self, num_tokens: int, begun: bool) -> None:
        if begun:
            self._begun -= 1
        else:
            self._waiting -= 1
            self._tokens -= num_tokens
