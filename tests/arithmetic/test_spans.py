"""The closed forms of a span against counting entry by entry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.spans import Span
from headway.arithmetic.step_shape import decode, prefill, rows, sharing

spans = st.one_of(
    st.just(Span()),
    st.builds(Span, window=st.integers(1, 9), chunked=st.booleans()),
    st.builds(Span, every=st.integers(1, 5), topk=st.integers(0, 6)),
)


def visible(span: Span, position: int) -> set[int]:
    """Entries that the token at `position` could attend."""
    if span.window:
        first = position // span.window * span.window if span.chunked else max(0, position - span.window + 1)
        return set(range(first, position + 1))
    return set(range((position + 1) // span.every))


def attended(span: Span, position: int) -> int:
    entries = len(visible(span, position))
    return min(entries, span.topk) if span.topk else entries


@given(spans, st.integers(0, 40), st.integers(0, 40))
@settings(deadline=None)
def test_pairs_reads_and_writes(span: Span, start: int, count: int) -> None:
    step = rows((span,), start, count)
    positions = range(start, start + count)
    assert step.pairs[0] == sum(attended(span, p) for p in positions)
    union = set().union(*(visible(span, p) for p in positions))
    assert step.reads[0] == (min(len(union), count * span.topk) if span.topk else len(union))
    made = {p // span.every for p in positions if p % span.every == span.every - 1}
    assert step.writes[0] == len(made)
    assert (step.tokens, step.sequences, step.sampled) == (count, count > 0, count > 0)


@given(spans, st.lists(st.integers(1, 12), min_size=1, max_size=6))
@settings(deadline=None)
def test_chunks_of_a_prompt_attend_what_the_whole_does(span: Span, chunks: list[int]) -> None:
    starts = np.cumsum([0, *chunks[:-1]])
    parts = rows((span,), starts, np.array(chunks)).total()
    whole = prefill((span,), sum(chunks))
    assert parts.pairs[0] == whole.pairs[0]
    assert parts.tokens == whole.tokens
    assert parts.writes[0] == whole.writes[0]
    assert parts.reads[0] >= whole.reads[0]


@given(
    st.one_of(st.just(Span()), st.builds(Span, window=st.integers(1, 9)), st.builds(Span, every=st.integers(1, 4))),
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), min_size=1, max_size=5),
)
@settings(deadline=None)
def test_a_shared_prefix_is_read_once(span: Span, shared: int, tails: list[tuple[int, int]]) -> None:
    start, count = np.array([shared + tail for tail, _ in tails]), np.array([n for _, n in tails])
    in_common = shared // span.every
    blocks: set[tuple[int, int]] = set()
    for row, (first, n) in enumerate(zip(start, count, strict=True)):
        seen = set().union(*(visible(span, p) for p in range(first, first + n)))
        blocks |= {(-1 if entry < in_common else row, entry) for entry in seen}
    step = sharing((span,), start, count, shared)
    assert step.reads[0] == len(blocks)
    assert step.pairs[0] == rows((span,), start, count).total().pairs[0]


@given(
    spans,
    st.integers(0, 12),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 4),
)
@settings(deadline=None)
def test_sequences_alike_share_within_their_groups(span: Span, shared: int, more: int, each: int, groups: int) -> None:
    whole = decode((span,), each * groups, shared + more, shared, groups)
    start = np.full(each, shared + more - 1)
    assert whole.reads[0] == groups * sharing((span,), start, 1, shared).reads[0]
    assert whole.pairs[0] == decode((span,), each * groups, shared + more).pairs[0]
    if shared:
        with pytest.raises(ValueError, match="longer than what all have in common"):
            decode((span,), 2, shared, shared)


def test_shapes_add_and_multiply() -> None:
    both = (Span(), Span(window=4))
    batch = decode(both, 3, np.array([10, 100]))
    assert batch.pairs.tolist() == [[30, 300], [12, 12]]
    mixed = batch + prefill(both, np.array([8, 8]))
    assert mixed.tokens.tolist() == [11, 11]
    assert mixed.pairs.tolist() == [[66, 336], [38, 38]]
    with pytest.raises(ValueError, match="different attention spans"):
        batch + decode((Span(),), 1, 1)
    with pytest.raises(ValueError, match="must not be negative"):
        rows(both, -1)
    with pytest.raises(ValueError, match="at or after"):
        sharing(both, np.array([3, 9]), np.array([1, 1]), 4)


def test_a_million_tokens_stay_exact() -> None:
    n = 10_000_000
    assert rows((Span(),), 0, n).pairs[0] == n * (n + 1) // 2
