"""The sums over a step's rows that its cost depends on. One object can hold the sums of many steps at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.arithmetic.layers import ShapeError
from headway.arithmetic.spans import Ints, Span

_MOST = np.iinfo(np.int64).max
IntLike = int | Ints | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepShape:
    """Fields are int64 of one shape [...], a step each; with a leading axis [G] where they depend on the span.

    Shapes add: a step of these rows and those has the sum. Shapes multiply: `times(32)` is 32 rows alike.
    """

    spans: tuple[Span, ...]
    tokens: Ints
    """New tokens: each passes every layer once."""
    sequences: Ints
    sampled: Ints
    """Rows whose logits are needed."""
    pairs: Ints
    """[G, ...] attended (query, entry) pairs."""
    reads: Ints
    """[G, ...] entries read from the cache, each once a row."""
    writes: Ints
    """[G, ...] entries added."""

    def __add__(self, other: StepShape) -> StepShape:
        if self.spans != other.spans:
            raise ValueError("step shapes of models with different attention spans do not add")
        return StepShape(self.spans, *(a + b for a, b in zip(self._counts(), other._counts(), strict=True)))

    def times(self, rows: IntLike) -> StepShape:
        """Raises ShapeError for more pairs than can be counted."""
        if int(np.max(self.pairs, initial=0)) * int(np.max(rows, initial=0)) > _MOST:
            raise ShapeError(
                "so many rows so long attend more than 2^63 pairs of tokens: fewer or shorter ones can be counted"
            )
        return StepShape(self.spans, *(count * rows for count in self._counts()))

    def total(self) -> StepShape:
        """One step of all the rows that stand along the last axis."""
        return StepShape(self.spans, *(count.sum(-1) for count in self._counts()))

    def busiest_share(self, groups: int) -> npt.NDArray[np.float64]:
        """Share of the step's tokens in the fullest of `groups` groups that its sequences are dealt out to, if rows are
        alike. One sequence is never split.
        """
        sequences = np.maximum(self.sequences, 1)
        return np.asarray(-(-sequences // groups) / sequences, np.float64)

    def local_tokens(self, data: int, context: int) -> npt.NDArray[np.float64]:
        """Tokens that the busiest chip sees outside of attention: at least one if there are any."""
        share = self.busiest_share(data) / context
        return np.maximum(self.tokens * share, np.minimum(self.tokens, 1.0))

    def _counts(self) -> tuple[Ints, ...]:
        return self.tokens, self.sequences, self.sampled, self.pairs, self.reads, self.writes


def rows(spans: tuple[Span, ...], start: IntLike, count: IntLike = 1, sampled: IntLike = 1) -> StepShape:
    """Each row a step of its own: `count` new tokens after `start` whose KV is there. Arrays broadcast.

    Raises ValueError for a negative start or count.
    """
    start, count, sampled = np.broadcast_arrays(*(np.asarray(x, np.int64) for x in (start, count, sampled)))
    if (start < 0).any() or (count < 0).any():
        raise ValueError("a row's start and count must not be negative")
    live = np.asarray(count > 0, np.int64)
    return StepShape(
        spans,
        count,
        live,
        sampled * live,
        _stack([span.pairs(start, count) for span in spans], start),
        _stack([span.reads(start, count) for span in spans], start),
        _stack([span.writes(start, count) for span in spans], start),
    )


def decode(
    spans: tuple[Span, ...], batch: IntLike, context: IntLike, shared: IntLike = 0, groups: int = 1
) -> StepShape:
    """`batch` sequences that each make one token, with `context` tokens known (the one that is fed included).

    The first `shared` of them are the same blocks, which each of `groups` groups of sequences reads once. Raises
    ValueError if the fed token is one of them.
    """
    known, batch, shared = np.broadcast_arrays(*(np.asarray(x, np.int64) for x in (context, batch, shared)))
    start = known - 1
    step = rows(spans, start).times(batch)
    if not shared.any():
        return step
    if (start < shared).any():
        raise ValueError("every sequence must be longer than what all have in common")
    again = np.maximum(0, batch - np.minimum(batch, groups))
    saved = _stack([again * _seen(span, start, shared) for span in spans], start)
    return StepShape(spans, step.tokens, step.sequences, step.sampled, step.pairs, step.reads - saved, step.writes)


def prefill(spans: tuple[Span, ...], tokens: IntLike, cached: IntLike = 0, batch: IntLike = 1) -> StepShape:
    """`batch` prompts of `cached` + `tokens` tokens, the first `cached` of them with KV in place."""
    cached, tokens, batch = np.broadcast_arrays(*(np.asarray(x, np.int64) for x in (cached, tokens, batch)))
    return rows(spans, cached, tokens).times(batch)


def sharing(spans: tuple[Span, ...], start: IntLike, count: IntLike, shared: int) -> StepShape:
    """One step of rows (last axis) whose first `shared` tokens are the same blocks, which the kernel reads once.

    Raises ValueError if a row starts inside the shared part. Entries that a row chooses itself (`topk`) are not shared.
    """
    start, count = np.broadcast_arrays(np.asarray(start, np.int64), np.asarray(count, np.int64))
    if (start < shared).any():
        raise ValueError(f"every row must start at or after the {shared} shared tokens")
    step = rows(spans, start, count).total()
    saved = _stack([_read_again(span, start, shared) for span in spans], step.tokens)
    return StepShape(spans, step.tokens, step.sequences, step.sampled, step.pairs, step.reads - saved, step.writes)


def _read_again(span: Span, start: Ints, shared: int) -> Ints:
    """Entries of the shared part that are read by a row although another row reads them as well."""
    seen = _seen(span, start, shared)
    return np.asarray(seen.sum(-1) - seen.max(-1, initial=0), np.int64)


def _seen(span: Span, start: Ints, shared: int | Ints) -> Ints:
    """Entries of the shared part that the token at `start` reads where others can read them with it."""
    if span.topk:
        return np.zeros_like(start)
    return np.maximum(0, shared // span.every - span.first_visible(start))


def _stack(arrays: list[Ints], like: Ints) -> Ints:
    return np.stack(arrays) if arrays else np.zeros((0, *np.shape(like)), np.int64)
