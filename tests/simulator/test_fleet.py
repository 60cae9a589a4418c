"""Clients, routers, prefix reuse, refusals, preemption, and what the results say of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.scheduler.request import Request
from headway.simulator.block_keys import BlockKeys
from headway.simulator.executor import ModelledExecutor
from headway.simulator.fleet import FleetConfig
from headway.simulator.pools import Pool
from headway.simulator.price import Price
from headway.simulator.results import PoolUse, Quantiles, Results, Slo, quantiles
from headway.simulator.router import Load, PrefixAware, Router, SessionAffinity, make_router
from headway.simulator.token_gaps import TokenGaps
from headway.workload.call import Call, Workload, WorkloadError

from .drive import MS, Outcome, PlainTime, config, lone, run, run_fleet

FLAT = PlainTime(token_ns=0, attended_ns=0, gap_ns=0)
"""Every step takes a millisecond."""


def test_one_request_by_hand() -> None:
    """A prompt of 40 tokens takes two chunks of 32; the second draws; four more tokens follow."""
    (record,) = run(lone((0.5, 40, 5)), time=FLAT).records
    receipt = record.receipt
    assert (receipt.queue_ns, receipt.prefill_ns, receipt.decode_ns) == (0, 2 * MS, 4 * MS)
    assert (receipt.steps, receipt.tokens_computed, receipt.tokens_generated) == (6, 44, 5)
    assert record.end_ns == 506 * MS
    assert record.reason == "stop"


def test_a_late_request_takes_the_next_step() -> None:
    first, second = run(lone((0, 4, 10), (0.0025, 4, 2)), time=FLAT).records[::-1]
    assert first.end_ns == 10 * MS
    assert second.receipt.queue_ns == MS // 2
    assert second.end_ns == 5 * MS


def test_an_arrival_at_the_very_end_of_a_step_is_too_late_for_the_next() -> None:
    for jumps in (True, False):
        records = run(lone((0, 4, 10), (0.003, 4, 2)), time=FLAT, jumps=jumps).records
        assert next(r for r in records if r.call.id == "1").receipt.queue_ns == MS


def test_a_closed_loop_keeps_its_concurrency() -> None:
    sessions = [(Call(str(i), 8, 4 + i % 5, gap_s=0.001),) for i in range(30)]
    records = run(Workload("closed", sessions, concurrency=3), time=FLAT).records
    assert len(records) == 30
    changes = sorted([(r.arrival_ns, 1) for r in records] + [(r.end_ns, -1) for r in records])
    number = most = 0
    for _, change in changes:
        number += change
        most = max(most, number)
    assert most == 3


def test_open_loop_calls_of_a_session_do_not_wait() -> None:
    session = [Call("a", 8, 50, "s", arrival_s=0.0), Call("b", 8, 2, "s", arrival_s=0.004)]
    records = run(Workload("open", [session]), time=FLAT).records
    assert [(r.call.id, r.arrival_ns) for r in records] == [("b", 4 * MS), ("a", 0)]


def test_an_answer_is_cut_at_the_clients_limit() -> None:
    (record,) = run(lone((0, 4, 50)), max_output_tokens=10).records
    assert (record.reason, record.receipt.tokens_generated) == ("length", 10)


def test_what_can_never_fit_is_refused_and_its_session_goes_on() -> None:
    session = [Call("a", 500, 5, "s"), Call("b", 8, 5, "s", arrival_s=None, gap_s=0.1)]
    outcome = run(Workload("w", [session]))
    assert [(r.call.id, r.reason) for r in outcome.records] == [("a", "never_fits"), ("b", "stop")]
    assert summary(outcome).refused == {"never_fits": 1}


def test_a_full_queue_refuses() -> None:
    calls = [(0.0, 8, 4)] * 10
    outcome = run(lone(*calls), config(max_running=1, max_queued_requests=4))
    reasons = [r.reason for r in outcome.records]
    assert reasons.count("queue_full") == 6
    assert reasons.count("stop") == 4


def test_preempted_answers_keep_their_lengths() -> None:
    calls = [(0.0, 20, 60)] * 4
    outcome = run(lone(*calls), config(num_blocks=30, max_context=100), check=True)
    assert sum(r.receipt.preemptions for r in outcome.records) > 0
    assert [r.receipt.tokens_generated for r in outcome.records] == [60] * 4


def test_a_prefix_is_computed_once() -> None:
    ids = ((1, 2, 3, 4), (1, 2, 3, 9))
    first, second = run(lone((0, 17, 2), (1, 17, 2), ids=ids)).records
    assert (first.receipt.tokens_reused, second.receipt.tokens_reused) == (0, 12)
    off = run(lone((0, 17, 2), (1, 17, 2), ids=ids), config(prefix_caching=False)).records
    assert [r.receipt.tokens_reused for r in off] == [0, 0]


@pytest.mark.parametrize(("block_size", "hash_block_size"), [(4, 4), (4, 16), (16, 4)])
def test_keys_of_smaller_and_larger_blocks(block_size: int, hash_block_size: int) -> None:
    """Prompts have as many keys in common as they have whole blocks in common, whatever was asked before."""
    tokens = 64
    ids = tuple(range(tokens // hash_block_size))
    other = (*ids[:-1], 99)
    keys = BlockKeys(block_size, hash_block_size)
    a, b, again = (keys.keys(x, tokens) for x in (ids, other, ids))
    assert a == again == BlockKeys(block_size, hash_block_size).keys(ids, tokens)
    assert len(a) == len(set(a)) == tokens // block_size
    same = sum(x == y for x, y in zip(a, b, strict=True))
    assert same == (tokens - hash_block_size) // block_size
    assert keys.keys(ids, tokens - 1) == a[:-1]


def test_blocks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(WorkloadError, match="do not divide"):
        run(replace(lone((0, 4, 4)), hash_block_size=6))


def test_unsorted_sessions_and_doubled_ids_are_refused() -> None:
    with pytest.raises(WorkloadError, match="before the one before it"):
        run(lone((5, 4, 4), (1, 4, 4)))
    with pytest.raises(WorkloadError, match="another with this id"):
        run(Workload("w", [(Call("x", 8, 9),), (Call("x", 8, 9),)]))


# Routers


def asked(keys: str = "", session: str | None = None, tokens: int = 0) -> Request:
    blocks = tuple(key.encode() for key in keys)
    return Request("r", tokens or max(1, 4 * len(blocks)), 1, block_keys=blocks, session=session)


def chosen(router: Router, request: Request, loads: list[Load]) -> int:
    for number, load in enumerate(loads):
        load.replica = number
    return router.choose(request, loads).replica


def test_round_robin_and_least_work() -> None:
    round_robin = make_router("round-robin", 4)
    loads = [Load(2, 90), Load(9, 10), Load(1, 10)]
    assert [chosen(round_robin, asked(), loads) for _ in range(4)] == [0, 1, 2, 0]
    least = make_router("least-work", 4)
    assert chosen(least, asked(), loads) == 2
    assert chosen(least, asked(), [Load(1, 9), Load(3, 30, speed=4.0)]) == 1, "30 tokens there take less time"
    with pytest.raises(WorkloadError, match="router must be one of"):
        make_router("random", 4)


def test_a_session_stays_at_home_and_homes_are_bounded() -> None:
    router = SessionAffinity(max_sessions=2)
    first, second = loads = [Load(1, 9), Load()]
    assert router.choose(asked(session="a"), loads) is second
    second.requests, second.tokens = 9, 99
    assert router.choose(asked(session="a"), loads) is second
    for name in "bc":
        router.choose(asked(session=name), loads)
    assert router.choose(asked(session="a"), loads) is first, "forgotten: it was used least recently"


def test_the_longest_cached_prefix_is_weighed_against_load() -> None:
    router = PrefixAware(block_size=4, load_weight=0.5)
    idle = [Load(blocks=10), Load(blocks=10)]
    assert chosen(router, asked("abcd"), idle) == 0
    assert chosen(router, asked("xy"), [Load(1, 16, 10), Load(blocks=10)]) == 1
    assert chosen(router, asked("abcz"), [Load(1, 16, 10), Load(blocks=10)]) == 0, "12 tokens cached, 16 / 2 ahead"
    assert chosen(router, asked("abcd"), [Load(1, 60, 10), Load(blocks=10)]) == 1
    assert chosen(router, asked("q"), idle) == 0
    assert chosen(router, asked("w"), [Load(blocks=10, speed=0.5), Load(blocks=10)]) == 1, "it is faster there"


def test_what_a_router_remembers_is_bounded_by_the_blocks_of_a_replica() -> None:
    router = PrefixAware(block_size=4)
    router.choose(asked("abcdefgh"), [Load(blocks=3)])
    assert router._cached(0, asked("abcdefgh").block_keys) == 3, "heads stay longest"


def test_affinity_reuses_more_than_round_robin() -> None:
    sessions = [
        [
            Call(f"{s}.{i}", 20 + 20 * i, 4, f"s{s}", arrival_s=None if i else 0.01 * s, gap_s=0.01,
                 hash_ids=tuple(1000 * s + j for j in range(5 + 5 * i)))
            for i in range(4)
        ]
        for s in range(6)
    ]  # fmt: skip
    reused = {}
    for router in ("round-robin", "session", "prefix"):
        outcome = run(Workload("w", sessions, 4), config(200), replicas=3, router=router)
        reused[router] = sum(r.receipt.tokens_reused for r in outcome.records)
    assert reused["session"] > 1.5 * reused["round-robin"]
    assert reused["prefix"] > 1.5 * reused["round-robin"]


# Results


def summary(outcome: Outcome, slo: Slo | None = None, price: Price | None = None):
    results = Results(slo or Slo())
    for record in outcome.records:
        results.add(record)
    executors: list[ModelledExecutor] = [replica.executor for replica in outcome.fleet.replicas]
    return results.summary([PoolUse("chip", 2, (price or Price(None, None)).times(2), executors)])


def test_a_summary_by_hand() -> None:
    outcome = run(lone((0, 4, 11), (1, 4, 1)), time=FLAT)
    s = summary(outcome, Slo(ttft_s=0.001, e2e_s=0.005), Price(power_w=500, usd_per_hour=3.6))
    assert (s.calls, s.finished, s.input_tokens, s.output_tokens, s.steps) == (2, 2, 8, 12, 12)
    assert s.duration_s == pytest.approx(1.001)
    assert s.ttft_s == Quantiles(0.001, 0.001, 0.001, 0.001, 0.001)
    assert s.tpot_s.mean == s.tpot_s.max == pytest.approx(0.001)
    assert s.itl_s.mean == pytest.approx(0.001)
    assert s.e2e_s.max == pytest.approx(0.011)
    assert (s.goodput_share, s.goodput_requests_per_s) == (0.5, pytest.approx(1 / 1.001))
    assert s.output_tokens_per_s_per_chip == pytest.approx(12 / 1.001 / 2)
    assert s.busy_s == s.charged_s == pytest.approx(0.012)
    assert s.energy_j == pytest.approx(0.012 * 500 * 2)
    assert s.cost_usd == pytest.approx(1.001 * 2 * 3.6 / 3600)
    assert s.charged_usd == pytest.approx(0.012 * 2 * 3.6 / 3600)
    assert s.usd_per_mtok_output == pytest.approx(s.cost_usd / 12 * 1e6)


def test_nothing_published_is_not_made_up() -> None:
    s = summary(run(lone((0, 4, 1))))
    assert (s.energy_j, s.cost_usd, s.charged_usd, s.usd_per_mtok_output) == (None, None, None, None)
    assert s.tpot_s == Quantiles(None, None, None, None, None), "one token has no time a token"


def test_quantiles_by_nearest_rank() -> None:
    q = quantiles(range(1, 101))
    assert (q.p50, q.p90, q.p99, q.max, q.mean) == (50, 90, 99, 100, 50.5)
    assert quantiles([]) == Quantiles(None, None, None, None, None)


def test_gaps_are_counted_to_a_64th() -> None:
    import numpy as np

    gaps, values = TokenGaps(), np.random.default_rng(0).lognormal(15, 2, 20_000).astype(np.int64) + 1
    times = np.concatenate([[7], 7 + values.cumsum()])
    gaps.add(times[:5001])
    rest = TokenGaps()
    rest.add(times[5000:])
    gaps.merge(rest)
    assert gaps.mean_s() == pytest.approx(values.mean() / 1e9)
    for q in (0.01, 0.5, 0.99, 1.0):
        exact = np.quantile(values, q, method="inverted_cdf") / 1e9
        assert exact <= gaps.quantile_s(q) <= exact * (1 + 1 / 64)
    assert TokenGaps().quantile_s(0.5) is None


@pytest.mark.parametrize(
    ("second", "reused"),
    [
        ((1, 2, 3, 4, 5, 6, 7), 20),  # goes on from prompt and answer: 23 of those 24 tokens have KV, five whole blocks
        ((1, 9, 10, 11, 12, 13, 14), 4),  # the prompt was edited: no answer to it is meant
        ((7, 8, 9, 10, 11, 12, 13), 0),  # compacted: nothing is common
    ],
)
def test_the_next_turn_finds_the_answer_that_it_goes_on_from(second: tuple[int, ...], reused: int) -> None:
    calls = [
        Call("first", 9, 15, "s", hash_ids=(1, 2)),
        Call("second", 28, 2, "s", arrival_s=None, gap_s=0.01, hash_ids=second),
    ]
    records = run(Workload("turns", [calls], hash_block_size=4), time=FLAT).records
    assert records[1].receipt.tokens_reused == reused


def test_clients_at_a_distance_see_the_way() -> None:
    """A session of two calls, each of three steps, over 40 ms there and back."""
    calls = [Call("a", 4, 3, "s"), Call("b", 4, 3, "s", arrival_s=None, gap_s=0.1)]
    pool = Pool(1, config(), FLAT)
    first, second = run_fleet(Workload("far", [calls]), FleetConfig((pool,), round_trip_s=0.04)).records
    assert (first.arrival_ns, first.ttft_ns, first.end_ns) == (0, 41 * MS, 43 * MS)
    assert (first.receipt.ttft_ns, first.receipt.decode_ns) == (MS, 2 * MS), "what the fleet sees"
    assert (second.arrival_ns, second.e2e_ns) == (143 * MS, 43 * MS), "the client waits for the answer to arrive"


def test_a_closed_loop_waits_for_the_way() -> None:
    sessions = [(Call(str(i), 4, 3),) for i in range(10)]
    far = FleetConfig((Pool(1, config(), FLAT),), round_trip_s=0.04)
    records = run_fleet(Workload("closed", sessions, concurrency=2), far).records
    assert max(r.end_ns for r in records) == 5 * 43 * MS
