"""Log-probabilities in words: token ids become strings and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from headway.scheduler.contract import TokenLogprobs
from headway.server.text import TokenText

LEAST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON can't say."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """One token of the text; `logprob` is None at the very beginning of a prompt, which nothing predicts."""

    raw: bytes
    offset: int
    """Characters of text before it."""
    logprob: float | None
    top: tuple[tuple[bytes, float], ...]

    @property
    def string(self) -> str:
        return self.raw.decode("utf-8", "replace")


def logprobs_bytes(positions: int, top: int) -> int:
    """About what the scores of so many positions take in memory: small objects each, so no small numbers."""
    return 128 * positions * (2 + top)


def scored(text: TokenText, token_id: int, offset: int, entry: TokenLogprobs | None) -> ScoredToken:
    if entry is None:
        return ScoredToken(text.raw_bytes_of(token_id), offset, None, ())
    top = tuple((text.raw_bytes_of(id), _finite(logprob)) for id, logprob in entry.top)
    return ScoredToken(text.raw_bytes_of(token_id), offset, _finite(entry.logprob), top)


def _finite(logprob: float) -> float:
    return logprob if logprob > LEAST_LOGPROB else LEAST_LOGPROB
