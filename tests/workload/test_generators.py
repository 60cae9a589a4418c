"""Generated workloads: reproducible, independent streams, the figures they are made to reproduce."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.workload.agentic import Agentic
from headway.workload.arrivals import arrivals
from headway.workload.call import Call, Session, Workload, WorkloadError, faster, merge
from headway.workload.lengths import Fixed, LogNormal, Uniform, mixture, whole
from headway.workload.notation import LENGTHS
from headway.workload.presets import PRESETS
from headway.workload.streams import Streams
from headway.workload.synthetic import HASH_BLOCK_SIZE, Synthetic


def test_streams_depend_on_seed_and_purpose_only() -> None:
    streams = Streams(7)
    first = streams.of("lengths").random(5).tolist()
    streams.of("something new").random(1000)
    assert streams.of("lengths").random(5).tolist() == first
    assert streams.of("arrivals").random(5).tolist() != first
    assert Streams(8).of("lengths").random(5).tolist() != first


@pytest.mark.parametrize(("kind", "cv", "expected_cv"), [("poisson", 1, 1), ("gamma", 3, 3), ("constant", 1, 0)])
def test_arrivals_have_the_rate_and_the_burstiness(kind: str, cv: float, expected_cv: float) -> None:
    times = np.array(list(islice(arrivals(kind, 4.0, Streams(1).of("arrivals"), cv), 20_000)))
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(1 / 4, rel=0.08)
    assert gaps.std() / gaps.mean() == pytest.approx(expected_cv, abs=0.15)
    assert (gaps >= 0).all()


@pytest.mark.parametrize(("kind", "rate", "cv"), [("x", 1, 1), ("poisson", 0, 1), ("gamma", 1, 0), ("gamma", -1, 1)])
def test_bad_arrivals(kind: str, rate: float, cv: float) -> None:
    with pytest.raises(WorkloadError):
        arrivals(kind, rate, Streams(1).of("arrivals"), cv)


def test_lengths_as_text() -> None:
    assert LENGTHS.parse("512") == Fixed(512)
    assert LENGTHS.parse("100-900") == Uniform(100, 900)
    assert LENGTHS.parse("1000~0.8") == LogNormal(1000, 0.8)
    for bad in ("", "x", "0", "-5", "900-100", "1e9", "nan", "1~2~3", "0.5"):
        with pytest.raises(WorkloadError):
            LENGTHS.parse(bad)


@given(st.integers(0, 1000), st.integers(1, 5000))
def test_whole_lengths_are_in_bounds(seed: int, most: int) -> None:
    drawn = whole(mixture((0.5, 300, 2.0), (0.5, 5, 1.0)), Streams(seed).of("x"), 50, most)
    assert all(1 <= n <= most for n in drawn)


def synthetic(**more: object) -> Synthetic:
    return Synthetic(**({"num_requests": 50, "input_tokens": Uniform(10, 90), "output_tokens": Fixed(8)} | more))  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_calls_and_another_seed_others() -> None:
    one, again, other = (list(synthetic().workload(seed).sessions) for seed in (3, 3, 4))
    assert one == again
    assert one != other


def test_lengths_stay_when_arrivals_change() -> None:
    lengths = [
        [s[0].num_input_tokens for s in synthetic(rate_per_s=rate, prefixes=n).workload(3).sessions]
        for rate, n in ((1.0, 1), (9.0, 5))
    ]
    assert lengths[0] == lengths[1]


def test_prefixes_are_shared_within_a_group_only() -> None:
    calls = [s[0] for s in synthetic(prefixes=2, prefix_tokens=128).workload(1).sessions]
    assert {c.hash_ids for c in calls} == {(0, 1), (2, 3)}
    assert all(c.num_input_tokens >= 128 + 10 for c in calls)


def test_closed_loop_clients_do_not_march_in_step() -> None:
    workload = synthetic(concurrency=4, jitter_s=2.0).workload(1)
    assert workload.concurrency == 4
    starts = [s[0].arrival_s for s in islice(workload.sessions, 4)]
    assert len(set(starts)) == 4


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(WorkloadError, match="sub_agents must be a share"):
        Agentic("coding_agent", 1, sub_agents=share).workload(1)


@pytest.mark.parametrize("bad", [{"num_requests": 0}, {"prefixes": 0}, {"concurrency": 0}, {"jitter_s": -1}])
def test_bad_settings_are_named(bad: dict[str, int]) -> None:
    with pytest.raises(WorkloadError, match=next(iter(bad))):
        synthetic(**bad).workload(1)


@pytest.mark.parametrize("preset", PRESETS)
def test_agents_keep_the_rules_of_a_session(preset: str) -> None:
    for session in Agentic(preset, 20, max_context=100_000).workload(5).sessions:
        assert session[0].arrival_s is not None
        assert all(call.arrival_s is None for call in session[1:])
        assert all(call.num_input_tokens + call.num_output_tokens <= 100_000 for call in session)
        assert all(0 <= b.turn - a.turn <= 1 for a, b in pairwise(session))
        for a, b in pairwise(session):
            grown = b.num_input_tokens >= a.num_input_tokens + a.num_output_tokens
            prefix = a.hash_ids if grown else a.hash_ids[: 12_500 // HASH_BLOCK_SIZE]
            assert b.hash_ids[: len(prefix)] == prefix[: len(b.hash_ids)], (
                "a prefix grows, or is compacted to the shared"
            )


DRAWS = 100_000


def quantiles(values: np.ndarray, *shares: float) -> list[float]:
    return [*np.quantile(values, shares).tolist(), float(values.mean())]


@pytest.mark.parametrize(
    ("preset", "turns", "calls", "think_s", "tool_s"),
    [
        ("coding_agent", (3, 16, 46, 6.6), (10.1, 67), (111, 1200, 7920, 570), (9, 75, 799)),
        ("tracelab", (1, 18, 137, 9.2), (8.8, 82.5), (86, 1236, 50_040, 2802), (0.285, 13.6)),
    ],
)
def test_presets_have_the_measured_statistics(
    preset: str, turns: tuple[float, ...], calls: tuple[float, float], think_s: tuple[float, ...], tool_s: tuple[float]
) -> None:
    """p50, p90, p99 and mean of turns and think time, calls a turn and a session, p50, p90 and p99 of tool time."""
    drawn, rng = PRESETS[preset], Streams(1).of("statistics")
    in_session = np.maximum(1, np.rint(drawn.turns.draw(rng, DRAWS)))
    in_turn = 1 + np.rint(drawn.extra_calls.draw(rng, DRAWS))
    assert quantiles(in_session, 0.5, 0.9, 0.99) == pytest.approx(turns, rel=0.12)
    assert in_turn.mean() == pytest.approx(calls[0], rel=0.05)
    assert in_session.mean() * in_turn.mean() == pytest.approx(calls[1], rel=0.05)
    assert quantiles(drawn.think_s.draw(rng, DRAWS), 0.5, 0.9, 0.99) == pytest.approx(think_s, rel=0.15)
    tools = drawn.tool_s.draw(rng, DRAWS)
    for share, expected in zip((0.5, 0.9, 0.99), tool_s, strict=False):
        assert np.quantile(tools, share) == pytest.approx(expected, rel=0.5)


@pytest.mark.parametrize(
    ("preset", "output", "reused", "kept"),
    [
        ("coding_agent", 216, 0.962, {60: 0.814, 300: 0.941, 3600: 0.996}),
        ("tracelab", 214, 0.957, {60: 0.854, 300: 0.94, 3600: 0.986}),
    ],
)
def test_sessions_reuse_what_was_measured(preset: str, output: int, reused: float, kept: dict[int, float]) -> None:
    """The share of prompt tokens that the call before had, and how much of that a cache has that keeps them for so many
    seconds of idleness.
    """
    tokens, prefixes, gaps_s, outputs = (np.array(column) for column in zip(*_pairs(preset, 150), strict=True))
    assert prefixes.sum() / tokens.sum() == pytest.approx(reused, abs=0.035)
    assert np.median(outputs) == pytest.approx(output, rel=0.3)
    hit_rates = {ttl_s: prefixes[gaps_s <= ttl_s].sum() / prefixes.sum() for ttl_s in kept}
    assert hit_rates == pytest.approx(kept, abs=0.07)
    assert hit_rates[300] == pytest.approx(kept[300], abs=0.03)
    assert hit_rates[3600] == pytest.approx(kept[3600], abs=0.015)


def _pairs(preset: str, sessions: int) -> Iterator[tuple[int, int, float, int]]:
    """Of each call after another: its prompt, how much of that the one before had, the gap, and its output."""
    for session in Agentic(preset, sessions).workload(2).sessions:
        for a, b in pairwise(session[:200]):
            grown = b.num_input_tokens > a.num_input_tokens
            yield b.num_input_tokens, a.num_input_tokens if grown else 0, b.gap_s, b.num_output_tokens


def agents_of(session: Session) -> dict[int, list[Call]]:
    agents: dict[int, list[Call]] = {}
    for call in session:
        agents.setdefault(call.agent, []).append(call)
    return agents


@pytest.mark.parametrize("fork", [False, True])
def test_sub_agents_keep_the_rules_of_a_session(fork: bool) -> None:
    settings = {"max_context": 100_000, "sub_agents": 0.3, "fork": fork}
    plain = [list(s) for s in Agentic("coding_agent", 15).workload(5).sessions]
    shared = set()
    for session, alone in zip(Agentic("coding_agent", 15, **settings).workload(5).sessions, plain, strict=True):
        assert all(call.num_input_tokens + call.num_output_tokens <= 100_000 for call in session)
        assert len({call.id for call in session}) == len(session)
        agents = agents_of(session)
        assert [c.gap_s for c in agents.pop(0)] == [c.gap_s for c in alone], "main agents do as they did without"
        started = {n: [session[i] for i in call.after] for n, call in enumerate(session) if call.after}
        for own in agents.values():
            (parent,) = started[session.index(own[0])]
            follower = next(c for c in session[session.index(own[-1]) :] if c.agent == 0)
            assert own[-1] in started[session.index(follower)], "the parent waits for each"
            assert {c.turn for c in own} == {parent.turn} == {follower.turn}
            assert all(b.hash_ids[: len(a.hash_ids)] == a.hash_ids for a, b in pairwise(own))
            assert (own[0].hash_ids[:1] == parent.hash_ids[:1]) is fork
            shared.add(own[0].hash_ids[0])
    assert len(shared) == 1, "all begin with one prompt"


def test_sub_agents_have_the_measured_statistics() -> None:
    """10, 50 and 90% of: calls of a sub-agent, its first prompt, what a call adds, its report."""
    agents = [
        own
        for session in Agentic("coding_agent", 60, sub_agents=0.1).workload(1).sessions
        for number, own in agents_of(session).items()
        if number
    ]
    found = {
        "calls": [len(own) for own in agents],
        "first": [own[0].num_input_tokens for own in agents],
        "added": [
            b.num_input_tokens - a.num_input_tokens - a.num_output_tokens for own in agents for a, b in pairwise(own)
        ],
        "gap": [b.gap_s for own in agents for b in own[1:]],
        "report": [own[-1].num_output_tokens for own in agents],
    }
    measured = {
        "calls": (5, 11, 19),
        "first": (9044, 10348, 13335),
        "added": (227, 2110, 13785),
        "gap": (2.25, 3.88, 23.81),
        "report": (2139, 2975, 4760),
    }
    for name, values in found.items():
        assert np.quantile(values, [0.1, 0.5, 0.9]) == pytest.approx(measured[name], rel=0.5), name


def test_tails_of_sessions_are_heavy() -> None:
    lengths = sorted(len(s) for s in Agentic("coding_agent", 300).workload(2).sessions)
    assert sum(lengths[-30:]) > 0.4 * sum(lengths), "a tenth of the sessions makes more than 40% of the calls"


def at(*times_s: float) -> list[tuple[Call, ...]]:
    return [(Call(f"{t}", 1, 1, arrival_s=t),) for t in times_s]


def test_merge_head_and_faster() -> None:
    merged = list(merge(at(0, 2, 4), at(1, 2, 9)))
    assert [s[0].arrival_s for s in merged] == [0, 1, 2, 2, 4, 9]
    workload = Workload("w", merged, num_calls=6)
    assert [s[0].arrival_s for s in workload.head(2).sessions] == [0, 1]
    long = Workload("long", [[Call(f"{s}.{i}", 1, 1) for i in range(3)] for s in range(3)])
    assert [call.id for s in long.head(4).sessions for call in s] == ["0.0", "0.1", "0.2", "1.0"]
    assert [s[0].arrival_s for s in faster(workload, 2).sessions] == [0, 0.5, 1, 1, 2, 4.5]
    with pytest.raises(WorkloadError):
        workload.head(0)
    with pytest.raises(WorkloadError):
        faster(workload, 0)
