"""Sessions of turns of calls, whose context grows until it is compacted: a preset, and what is given in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from headway.workload.arrivals import arrivals
from headway.workload.call import Session, Workload, WorkloadError
from headway.workload.dialogue import AS_THE_PRESET, SHARED_PART, Dialogue, Given
from headway.workload.presets import PRESETS
from headway.workload.streams import Streams
from headway.workload.synthetic import HASH_BLOCK_SIZE, check_concurrency

LEAST_CONTEXT = 16


@dataclass(frozen=True, slots=True)
class Agentic:
    preset: str
    num_sessions: int
    rate_per_s: float = 0.01
    """Sessions that start in a second."""
    arrivals: str = "poisson"
    cv: float = 1.0
    concurrency: int | None = None
    shared_tokens: int | None = None
    """Tools and system prompt: the prefix that all sessions have in common, at most an eighth of the smallest context,
    and half of what is compacted. None: the preset's, or as much of it as that allows.
    """
    max_context: int = 1_000_000
    """No limit of a session is above this."""
    sub_agents: float = 0.0
    """Share of the calls followed by a tool that start sub-agents. The presets' figures are of main agents alone."""
    fork: bool = False
    """Sub-agents go on from their parent's prompt, not from a short one of their own."""
    given: Given = AS_THE_PRESET

    def workload(self, seed: int) -> Workload:
        """Raises WorkloadError for an unknown preset or numbers that make no sense."""
        self._check()
        starts = arrivals(self.arrivals, self.rate_per_s, Streams(seed).of("arrivals"), self.cv)
        sessions = islice(self._sessions(seed, starts), self.num_sessions)
        return Workload(self.preset, sessions, HASH_BLOCK_SIZE, self.concurrency)

    def _check(self) -> None:
        if self.preset not in PRESETS:
            raise WorkloadError(f"agents must be one of {', '.join(PRESETS)}, not {self.preset!r}")
        for field, least in (("num_sessions", 1), ("max_context", LEAST_CONTEXT)):
            if getattr(self, field) < least:
                raise WorkloadError(f"{field} must be at least {least}, not {getattr(self, field)}")
        limit = min(self.max_context, *(limit for _, limit in PRESETS[self.preset].limits))
        compact_at = self.given.compact_at
        if compact_at is not None and not LEAST_CONTEXT <= compact_at <= limit:
            raise WorkloadError(
                f"compact_at must be between {LEAST_CONTEXT} and {limit:,}, the context, not {compact_at:,}"
            )
        self._check_shared(limit // SHARED_PART, "an eighth of the context")
        if compact_at is not None:
            self._check_shared(compact_at // 2, "half of what is compacted")
        if not 0 <= self.sub_agents <= 1:
            raise WorkloadError(f"sub_agents must be a share from 0 to 1, not {self.sub_agents}")
        check_concurrency(self.concurrency)

    def _check_shared(self, most: int, what: str) -> None:
        if self.shared_tokens is not None and not 0 <= self.shared_tokens <= most:
            raise WorkloadError(f"shared_tokens must be between 0 and {most:,}, {what}, not {self.shared_tokens:,}")

    def _sessions(self, seed: int, starts: Iterator[float]) -> Iterator[Session]:
        for number in count():
            start_s = 0.0 if self.concurrency else next(starts)
            yield self._dialogue(number, Streams(seed)).calls(start_s)

    def _dialogue(self, number: int, streams: Streams) -> Dialogue:
        return Dialogue(
            PRESETS[self.preset],
            self.given,
            number,
            streams,
            max_context=self.max_context,
            shared_tokens=self.shared_tokens,
            sub_agents=self.sub_agents,
            fork=self.fork,
        )
