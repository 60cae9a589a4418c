"""How much may wait at a replica before the next call is sent away: the rule of the real server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.scheduler.refusal import QueueFull

if TYPE_CHECKING:
    from headway.scheduler.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """None: any number. Who could begin at once, because there are free seats, does not wait; one call alone is never
    too long to wait.
    """

    max_requests: int | None = None
    max_tokens: int | None = None
    """Of all requests without a seat."""

    def check(self, scheduler: Scheduler, num_tokens: int) -> None:
        """Before a request of `num_tokens` comes. Raises QueueFull."""
        if self.max_requests is None and self.max_tokens is None:
            return
        stats, seats = scheduler.stats(), scheduler.config.max_running
        queued = stats.num_running + stats.num_waiting - seats
        if self.max_requests is not None and queued >= self.max_requests:
            raise QueueFull(f"{max(0, queued):,} requests are queued; the limit is {self.max_requests:,}")
        tokens = scheduler.queued_tokens
        if self.max_tokens is not None and stats.num_waiting and tokens + num_tokens > self.max_tokens:
            raise QueueFull(f"{tokens:,} tokens are queued; the limit is {self.max_tokens:,}")
