"""Sessions that are described: the chat preset, and quantities in a preset's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from headway.workload.agentic import Agentic
from headway.workload.call import Call, Session, WorkloadError
from headway.workload.dialogue import MOST_DRAWN, Given
from headway.workload.lengths import Fixed, LogNormal, Uniform
from headway.workload.notation import COUNTS, LENGTHS, TIMES
from headway.workload.presets import PRESETS
from headway.workload.synthetic import HASH_BLOCK_SIZE

Values = Callable[[Session], Iterator[float]]
CHAT_PROMPT = PRESETS["chat"].shared_tokens


def sessions(
    preset: str = "chat", number: int = 300, seed: int = 3, given: Given | None = None, **more: Any
) -> list[Session]:
    return list(Agentic(preset, number, given=given or Given(), **more).workload(seed).sessions)


def test_times_and_numbers_as_text() -> None:
    assert TIMES.parse("40s~1.2") == LogNormal(40, 1.2)
    assert TIMES.parse("500ms-2min") == Uniform(0.5, 120)
    assert (TIMES.parse("1.5 h"), TIMES.parse("7"), TIMES.parse("0")) == (Fixed(5400), Fixed(7), Fixed(0))
    assert COUNTS.parse("5~0.6") == LogNormal(5, 0.6)
    assert (COUNTS.parse("5000"), TIMES.parse("1000000s")) == (Fixed(5000), Fixed(1e6))


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "2min-1s", "40s~", "40s~5.1", "40s~-1", "nan", "1e3", "1000001", "12d", "1~2~3"]
)
def test_bad_times_are_refused(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"times .* are not understood: 40s .*of 0 to 1,000,000 seconds"):
        TIMES.parse(text)


@pytest.mark.parametrize("text", ["0", "5001", "2.5", "8-2", "1-5001", "5001~1", "5~6", "3s"])
def test_bad_numbers_are_refused(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"numbers .* are not understood: 5 .*of 1 to 5,000 whole ones"):
        COUNTS.parse(text)


def quantiles(values: list[float], *shares: float) -> list[float]:
    return [float(np.mean(values)), *np.quantile(values, shares).tolist()]


def turns(session: Session) -> Iterator[float]:
    yield session[-1].turn + 1


def calls_of_turns(session: Session) -> Iterator[float]:
    yield from np.unique([call.turn for call in session], return_counts=True)[1].tolist()


def think_s(session: Session) -> Iterator[float]:
    yield from (b.gap_s for a, b in pairwise(session) if a.turn != b.turn)


def tool_s(session: Session) -> Iterator[float]:
    yield from (b.gap_s for a, b in pairwise(session) if a.turn == b.turn)


def added(session: Session, by_human: bool) -> Iterator[float]:
    for a, b in pairwise(session):
        if (a.turn != b.turn) == by_human:
            yield b.num_input_tokens - a.num_input_tokens - a.num_output_tokens + a.num_thinking_tokens


def messages(session: Session) -> Iterator[float]:
    yield from added(session, by_human=True)


def tool_results(session: Session) -> Iterator[float]:
    yield from added(session, by_human=False)


def first_tokens(session: Session) -> Iterator[float]:
    yield session[0].num_input_tokens - CHAT_PROMPT


def thinking(session: Session) -> Iterator[float]:
    yield from (call.num_thinking_tokens for call in session)


def answers(session: Session) -> Iterator[float]:
    yield from (call.num_output_tokens - call.num_thinking_tokens for call in session)


def drawn(made: list[Session], values: Values) -> list[float]:
    return [value for session in made for value in values(session)]


def test_chat_has_the_figures_of_its_sources() -> None:
    """Means, then medians and 90% quantiles where they are known."""
    made = sessions(number=3000)
    assert np.mean(drawn(made, turns)) == pytest.approx(3.5, rel=0.05)
    assert np.mean(drawn(made, messages)) == pytest.approx(69.5, rel=0.08)
    assert np.mean(drawn(made, first_tokens)) == pytest.approx(69.5, rel=0.08)
    assert quantiles(drawn(made, answers), 0.5, 0.9) == pytest.approx([205, 129, 424], rel=0.05)
    assert np.median(drawn(made, think_s)) == pytest.approx(100, rel=0.1)
    assert np.mean(drawn(made, think_s)) > 3 * np.median(drawn(made, think_s)), "the tail is heavy"
    assert {session[0].hash_ids[: CHAT_PROMPT // HASH_BLOCK_SIZE] for session in made} == {
        tuple(range(CHAT_PROMPT // HASH_BLOCK_SIZE))
    }


MANY = {"turns": Fixed(8), "calls_per_turn": Fixed(4)}
TOKENS = LogNormal(300, 0.7)
SECONDS = LogNormal(40, 1.2)


@pytest.mark.parametrize(
    ("field", "distribution", "values"),
    [
        ("turns", LogNormal(8, 0.6), turns),
        ("calls_per_turn", LogNormal(8, 0.5), calls_of_turns),
        ("think_s", SECONDS, think_s),
        ("tool_s", SECONDS, tool_s),
        ("first_tokens", TOKENS, first_tokens),
        ("message_tokens", TOKENS, messages),
        ("tool_tokens", TOKENS, tool_results),
        ("answer_tokens", TOKENS, answers),
        ("thinking_tokens", TOKENS, thinking),
    ],
)
def test_what_is_given_is_what_is_made(field: str, distribution: LogNormal, values: Values) -> None:
    """Within four standard errors, and what rounding to whole numbers does to the spread."""
    many = {} if field == "turns" else {"turns": Fixed(12)} if field == "calls_per_turn" else MANY
    number = {"turns": 800, "first_tokens": 800}.get(field, 80)
    found = drawn(sessions(number=number, given=Given(**{**many, field: distribution})), values)
    error = distribution.log_std / len(found) ** 0.5
    assert 4 * error < 0.25
    assert np.median(found) == pytest.approx(distribution.median, rel=4 * 1.25 * error)
    assert np.std(np.log(np.maximum(found, 0.5))) == pytest.approx(distribution.log_std, rel=4 * 0.7 * error + 0.02)


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_given_changes_nothing_else(preset: str) -> None:
    def told(made: list[Session], *values: Values) -> list[list[float]]:
        return [drawn(made, each) for each in values]

    plain = sessions(preset, 4)
    later = sessions(preset, 4, given=Given(think_s=Fixed(1.0), tool_s=Fixed(2.0)))
    assert set(drawn(later, think_s)) <= {1.0}
    assert set(drawn(later, tool_s)) <= {2.0}
    for a, b in zip((c for s in plain for c in s), (c for s in later for c in s), strict=True):
        assert (a.num_input_tokens, a.num_output_tokens, a.hash_ids) == (
            b.num_input_tokens,
            b.num_output_tokens,
            b.hash_ids,
        )
    longer = sessions(preset, 4, given=Given(answer_tokens=Fixed(9), thinking_tokens=Fixed(70)))
    assert told(longer, turns, calls_of_turns, think_s, tool_s) == told(plain, turns, calls_of_turns, think_s, tool_s)
    assert {(c.num_output_tokens, c.num_thinking_tokens) for s in longer for c in s} == {(79, 70)}


def test_thinking_is_left_out_of_the_next_prompt_and_breaks_nothing_before_it() -> None:
    given = Given(turns=Fixed(9), thinking_tokens=LogNormal(500, 1.0))
    for session in sessions(number=30, given=given):
        for a, b in pairwise(session):
            assert 0 < a.num_thinking_tokens < a.num_output_tokens
            assert b.num_input_tokens > a.num_input_tokens + a.num_output_tokens - a.num_thinking_tokens
            assert b.hash_ids[: len(a.hash_ids)] == a.hash_ids


def shared(a: Call, b: Call) -> int:
    pairs = list(zip(a.hash_ids, b.hash_ids, strict=False))
    return next((i for i, (x, y) in enumerate(pairs) if x != y), len(pairs))


@pytest.mark.parametrize("preset", PRESETS)
def test_compaction_keeps_what_all_share_and_nothing_else(preset: str) -> None:
    given = Given(turns=Fixed(60), compact_at=6000, message_tokens=LogNormal(300, 1.0), tool_tokens=Fixed(50))
    compactions = 0
    for session in sessions(preset, 5, given=given, shared_tokens=1000):
        assert max(call.num_input_tokens for call in session) <= 6000
        for a, b in pairwise(session):
            grown = b.num_input_tokens >= a.num_input_tokens + a.num_output_tokens
            compactions += not grown
            assert b.num_input_tokens > 1000
            assert shared(a, b) == (len(a.hash_ids) if grown else 1000 // HASH_BLOCK_SIZE)
    assert compactions > 5


def test_the_system_prompt_is_half_of_what_is_compacted_at_most() -> None:
    assert sessions(number=1, given=Given(compact_at=1500))[0][0].hash_ids[-1] >= 750 // HASH_BLOCK_SIZE - 1
    assert sessions(number=1, given=Given(compact_at=2000), shared_tokens=1000)
    with pytest.raises(
        WorkloadError, match="shared_tokens must be between 0 and 999, half of what is compacted, not 1,000"
    ):
        sessions(given=Given(compact_at=1999), shared_tokens=1000)


@pytest.mark.parametrize(("preset", "compact_at"), [("chat", 15), ("chat", 128_001), ("coding_agent", 200_001)])
def test_a_context_is_compacted_within_its_bounds(preset: str, compact_at: int) -> None:
    limit = {"chat": 128_000, "coding_agent": 200_000}[preset]
    with pytest.raises(WorkloadError, match=f"compact_at must be between 16 and {limit:,}, the context"):
        sessions(preset, given=Given(compact_at=compact_at))
    assert sessions(preset, 1, given=Given(turns=Fixed(1), compact_at=limit))


def test_extremes_stay_within_the_bounds() -> None:
    wild = LogNormal(1e6, 5.0)
    given = Given(*[LogNormal(9, 3.0)] * 2, *[wild] * 7)
    for session in sessions(number=3, given=given):
        for call in session:
            assert call.num_input_tokens >= 1
            assert 0 <= call.num_thinking_tokens < call.num_output_tokens
            assert call.num_input_tokens + call.num_output_tokens <= 128_000
            assert 0 <= call.gap_s <= MOST_DRAWN


def test_equal_seeds_give_equal_sessions() -> None:
    given = Given(turns=LENGTHS.parse("5~0.6"), thinking_tokens=LENGTHS.parse("100-900"), compact_at=5000)
    assert sessions(given=given) == sessions(given=given)
    assert sessions(given=given) != sessions(given=given, seed=4)
