"""Bytes and rounds of what chips send to each other."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from headway.arithmetic.attends import spans
from headway.arithmetic.experts import destinations, imbalance, popular_experts_touched, zipf_popularity
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode, prefill
from headway.arithmetic.transfers import all_reduce, all_to_all
from headway.arithmetic.work import step_work
from tests.arithmetic.models import model

MB = np.float64(1e6)


def test_all_reduce_inside_one_domain() -> None:
    t = all_reduce("", 8, MB, domain=8)
    assert (t.inside_bytes, t.outside_bytes) == (2 * 7 / 8 * 1e6, 0)
    assert (t.inside_rounds, t.outside_rounds) == (2, 0)


def test_all_reduce_over_domains_sends_a_slice_outside() -> None:
    t = all_reduce("", 32, MB, domain=8)
    assert (t.inside_bytes, t.outside_bytes) == (2 * 7 / 8 * 1e6, 2 * 3 / 4 * 1e6 / 8)
    assert (t.inside_rounds, t.outside_rounds) == (2, 2)


def test_all_to_all_splits_by_where_the_peers_are() -> None:
    t = all_to_all("", 16, MB, domain=8)
    assert t.inside_bytes == pytest.approx(1e6 * 7 / 15)
    assert t.inside_bytes + t.outside_bytes == pytest.approx(1e6)
    assert all_to_all("", 8, MB, domain=72).outside_bytes == 0


def test_tensor_parallel_llama_reduces_twice_a_layer() -> None:
    shape = model("llama-3.1-70b")
    work = step_work(shape, decode(spans(shape), 32, 100), cut=Parallelism(tensor=8))
    assert [(t.name, t.count) for t in work.transfers] == [("after attention", 80), ("after feed-forward", 80)]
    assert work.transfers[0].inside_bytes == 2 * 7 / 8 * 32 * 8192 * 2


def test_shared_and_routed_experts_are_reduced_together() -> None:
    shape = model("deepseek-v3")
    work = step_work(shape, decode(spans(shape), 32, 100), cut=Parallelism(tensor=8))
    counts = Counter[str]()
    for t in work.transfers:
        assert (t.kind, t.group) == ("all_reduce", 8)
        counts[t.name] += t.count
    assert counts == {"after attention": 61, "after feed-forward": 3, "after experts": 58}
    dealt = step_work(shape, decode(spans(shape), 32, 100), cut=Parallelism(tensor=8, data=2))
    groups = {(t.name, t.group) for t in dealt.transfers}
    assert {("after feed-forward", 8), ("after experts", 16)} <= groups


def test_one_chip_sends_nothing() -> None:
    shape = model("deepseek-v3")
    assert step_work(shape, decode(spans(shape), 32, 100)).transfers == ()


def test_expert_parallelism_sends_tokens_to_their_experts() -> None:
    shape = model("deepseek-v3")
    cut = Parallelism(data=64, expert=64)
    work = step_work(shape, decode(spans(shape), 6400, 100), cut=cut)
    to, back = (next(t for t in work.transfers if t.name == name) for name in ("to experts", "from experts"))
    assert to.count == back.count == 58
    assert to.inside_bytes == pytest.approx(100 * destinations(64, 8, 256) * 7168 * 2)
    assert to.group == 64


@pytest.mark.parametrize(("groups", "active", "total"), [(8, 2, 8), (4, 3, 8), (2, 4, 8), (8, 1, 16)])
def test_destinations_are_those_of_all_choices_of_distinct_experts(groups: int, active: int, total: int) -> None:
    size, chosen = total // groups, list(combinations(range(total), active))
    elsewhere = [len({expert // size for expert in picked} - {0}) for picked in chosen]
    assert destinations(groups, active, total) == pytest.approx(sum(elsewhere) / len(chosen))


def test_pipeline_hands_over_between_stages() -> None:
    shape = model("llama-3.1-70b")
    work = step_work(shape, decode(spans(shape), 32, 100), cut=Parallelism(pipeline=4), domain=2)
    (hop,) = work.transfers
    assert (hop.kind, hop.count, hop.outside_bytes) == ("point_to_point", 3, 32 * 8192 * 2)


def test_popularity() -> None:
    even = np.full(256, 8 / 256)
    assert imbalance(even, 8) == pytest.approx(1)
    skewed = zipf_popularity(256, 8, 1.0)
    assert skewed.sum() == pytest.approx(8)
    assert skewed.max() <= 1
    assert imbalance(skewed, 64) > 2
    assert popular_experts_touched(even, np.array([32.0])) == pytest.approx(256 * (1 - (1 - 8 / 256) ** 32))
    assert popular_experts_touched(skewed, np.array([32.0])) < popular_experts_touched(even, np.array([32.0]))


@pytest.mark.parametrize("tensor", [1, 2])
def test_a_context_exchange_sends_queries_or_the_keys_and_values_of_its_own_layers(tensor: int) -> None:
    """Gemma 3 27B after 100,000 tokens: 32 heads, 16 KV heads of 128; ten layers see all, the others 1,024 tokens."""
    gemma = model("gemma-3-27b")
    shape = prefill(spans(gemma), 4096, cached=100_000)
    cut = Parallelism(tensor=tensor, context=4)
    work = step_work(gemma, shape, cut=cut, domain=8)
    near, far = (t for t in work.transfers if t.name == "context exchange")
    queries_bytes = 4096 * 32 * (128 + 128) * 2 / tensor
    window_bytes = (4096 + 1023) * 16 * (128 + 128) * 2 / tensor
    assert (near.count, far.count) == (52, 10)
    assert near.inside_bytes == pytest.approx(3 / 4 * window_bytes)
    assert far.inside_bytes == pytest.approx(3 / 4 * queries_bytes)
