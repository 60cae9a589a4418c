"""What the engines are asked to do."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np

PLAIN_TOKENS_FROM = 64
"""Token ids below are left out where the vocabulary has enough: they are special in most tokenizers."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    requests: int
    concurrency: int
    """Requests open at one time; the next is sent when one ends."""
    shared_tokens: int
    """Every prompt begins with these."""
    own_tokens: int
    output_tokens: int

    @property
    def prompt_tokens(self) -> int:
        return self.shared_tokens + self.own_tokens

    def prompts(self, seed: int, vocab: int) -> list[list[int]]:
        """[requests][prompt_tokens] ids, other ones for each seed and job: no prefix cache has seen them."""
        random = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        low = PLAIN_TOKENS_FROM if vocab > 4 * PLAIN_TOKENS_FROM else 0
        shared = random.integers(low, vocab, self.shared_tokens).tolist()
        own = random.integers(low, vocab, (self.requests, self.own_tokens)).tolist()
        return [shared + tokens for tokens in own]

    def shrunk(self, by: int) -> Job:
        """Lengths divided, for a quick look."""
        return replace(
            self,
            shared_tokens=self.shared_tokens // by,
            own_tokens=max(1, self.own_tokens // by),
            output_tokens=max(2, self.output_tokens // by),
        )


JOBS = {
    job.name: job
    for job in (
        Job("A1", requests=8, concurrency=1, shared_tokens=0, own_tokens=256, output_tokens=128),
        Job("A8", requests=32, concurrency=8, shared_tokens=0, own_tokens=256, output_tokens=128),
        Job("A32", requests=32, concurrency=32, shared_tokens=0, own_tokens=256, output_tokens=128),
        Job("B32", requests=32, concurrency=32, shared_tokens=1024, own_tokens=64, output_tokens=64),
    )
}
WARM_UP = Job("warm-up", requests=4, concurrency=2, shared_tokens=0, own_tokens=48, output_tokens=8)
"""Before each measurement: what an engine sets up at its first requests is not measured."""
