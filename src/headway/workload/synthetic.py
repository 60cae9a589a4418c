"""Requests by distribution: alone, or in groups that share a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from headway.workload.arrivals import arrivals
from headway.workload.call import Call, Session, Workload, WorkloadError
from headway.workload.lengths import MAX_TOKENS, Distribution, whole
from headway.workload.streams import Streams

HASH_BLOCK_SIZE = 64
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Lone requests. Where `prefix_tokens` is not 0, each begins with one of `prefixes` shared texts of that length."""

    num_requests: int
    input_tokens: Distribution
    output_tokens: Distribution
    max_tokens: int = MAX_TOKENS
    """Longer draws are cut to this."""
    rate_per_s: float = 1.0
    arrivals: str = "poisson"
    cv: float = 1.0
    concurrency: int | None = None
    """Closed loop, and then `rate_per_s` is not used."""
    jitter_s: float = 0.0
    """Closed loop: a client pauses up to this long before each request, so that clients do not march in step."""
    prefixes: int = 1
    prefix_tokens: int = 0
    name: str = "synthetic"

    def workload(self, seed: int) -> Workload:
        """Raises WorkloadError for numbers that make no sense."""
        for field, least in (("num_requests", 1), ("prefixes", 1), ("prefix_tokens", 0), ("jitter_s", 0)):
            if not getattr(self, field) >= least:
                raise WorkloadError(f"{field} must be at least {least}, not {getattr(self, field)}")
        check_concurrency(self.concurrency)
        block = HASH_BLOCK_SIZE if self.prefix_tokens else 0
        sessions = islice(self._sessions(Streams(seed)), self.num_requests)
        return Workload(self.name, sessions, block, self.concurrency, self.num_requests)

    def _sessions(self, streams: Streams) -> Iterator[Session]:
        start_s = self._starts(streams)
        inputs, outputs = streams.of("input tokens"), streams.of("output tokens")
        pauses, choices = streams.of("pauses"), streams.of("prefixes")
        number = 0
        while True:
            in_tokens = whole(self.input_tokens, inputs, _BATCH, self.max_tokens)
            out_tokens = whole(self.output_tokens, outputs, _BATCH, self.max_tokens)
            pause_s = pauses.uniform(0, self.jitter_s, _BATCH).tolist()
            chosen = choices.integers(self.prefixes, size=_BATCH).tolist()
            for own, output, pause, prefix in zip(in_tokens, out_tokens, pause_s, chosen, strict=True):
                yield (
                    Call(
                        id=str(number),
                        num_input_tokens=self.prefix_tokens + own,
                        num_output_tokens=output,
                        arrival_s=pause if self.concurrency else next(start_s),
                        gap_s=pause,
                        hash_ids=self._prefix_ids(prefix),
                    ),
                )
                number += 1

    def _starts(self, streams: Streams) -> Iterator[float]:
        return arrivals(self.arrivals, self.rate_per_s, streams.of("arrivals"), self.cv)

    def _prefix_ids(self, prefix: int) -> tuple[int, ...]:
        length = self.prefix_tokens // HASH_BLOCK_SIZE
        return tuple(range(prefix * length, (prefix + 1) * length))


def check_concurrency(concurrency: int | None) -> None:
    if concurrency is not None and concurrency < 1:
        raise WorkloadError(f"concurrency must be at least 1, not {concurrency}")
