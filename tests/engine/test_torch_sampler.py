"""Filters against a plain reference, penalties against transformers, draws against their distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import RepetitionPenaltyLogitsProcessor

from headway.engine.filters import thresholds
from headway.engine.penalties import Penalties
from headway.engine.sampler import Draws, inverse_cdf, sample
from headway.engine.sampling_table import SamplingTable
from headway.scheduler.contract import Admitted, ints
from headway.scheduler.request import Request, Sampling

CPU = torch.device("cpu")


def table_for(samplings, vocab, tokens=(0,), prompt=1) -> SamplingTable:
    table = SamplingTable(len(samplings), vocab, CPU)
    for slot, sampling in enumerate(samplings):
        array = np.array(tokens, np.int64)
        table.admit(Admitted(slot, Request("r", prompt, 100, array, sampling=sampling), array, 0))
    return table


def draw(logits, samplings, positions, tokens=(0,), prompt=1):
    n = len(samplings)
    table = table_for(samplings, logits.shape[1], tokens, prompt)
    zeros = np.zeros(n, np.int64)
    return sample(logits, Draws(np.arange(n), np.array(positions), zeros, zeros), table)


def kept_by_definition(z: np.ndarray, top_k: int, top_p: float, min_p: float) -> set[int]:
    """min-p, top-k, top-p one after the other over a plain sorted list; tokens equal to the last one kept stay."""
    weights = {i: float(np.exp(np.float64(x) - z.max())) for i, x in enumerate(z)}
    if min_p > 0:
        limit = z.max() + np.log(np.float32(min_p))
        weights = {i: w for i, w in weights.items() if z[i] >= limit}
    order = sorted(weights, key=lambda i: -z[i])
    if 0 < top_k < len(z):
        order = [i for i in order if z[i] >= z[order[min(top_k, len(order)) - 1]]]
    if top_p < 1:
        total, mass = sum(weights[i] for i in order), 0.0
        for i in order:
            mass += weights[i]
            if mass >= np.float32(top_p) * total:
                return {j for j in order if z[j] >= z[i]}
    return set(order)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    vocab=st.sampled_from([5, 40, 700]),
    rows=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 3, 50, 10_000]),
            st.sampled_from([0.05, 0.37, 0.811, 0.99, 1.0]),
            st.sampled_from([0.0, 0.013, 0.31]),
            st.sampled_from([0.2, 1.0, 6.0]),
        ),
        min_size=1,
        max_size=5,
    ),
    ties=st.booleans(),
)
def test_filters_keep_what_the_definition_keeps(seed, vocab, rows, ties):
    z = np.random.default_rng(seed).normal(size=(len(rows), vocab)).astype(np.float32)
    z *= np.array([[spread] for *_, spread in rows], np.float32)
    if ties:
        z = np.round(z)
    top_k, top_p, min_p = (torch.tensor([row[i] for row in rows]) for i in range(3))
    floor = thresholds(torch.from_numpy(z), top_k, top_p.float(), min_p.float())
    for i, (k, p, m, _) in enumerate(rows):
        assert set(np.flatnonzero(z[i] >= floor[i].item()).tolist()) == kept_by_definition(z[i], k, p, m)


def test_a_nucleus_larger_than_the_first_candidates():
    z = torch.zeros(1, 3000) - torch.arange(3000) * 1e-4
    floor = thresholds(z, torch.tensor([0]), torch.tensor([0.9]), torch.tensor([0.0]))
    kept = int((z >= floor).sum())
    assert kept == len(kept_by_definition(z[0].numpy(), 0, 0.9, 0.0))
    assert kept > 2000


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.5, top_k=6),
        Sampling(temperature=1.7, top_p=0.8),
        Sampling(temperature=1.0, min_p=0.1, top_p=0.9, top_k=20),
    ],
)
def test_draws_follow_the_distribution(sampling):
    vocab, n = 700, 20_000
    logits = torch.from_numpy(np.random.default_rng(3).normal(size=vocab).astype(np.float32) * 2)
    table = table_for([sampling], vocab)
    counts = np.zeros(vocab)
    for first in range(0, n, 2000):
        zeros = np.zeros(2000, np.int64)
        draws = Draws(zeros, np.arange(first, first + 2000), zeros, zeros)
        counts += np.bincount(sample(logits.repeat(2000, 1), draws, table), minlength=vocab)
    z = logits.numpy() / sampling.temperature
    kept = sorted(kept_by_definition(z, sampling.top_k, sampling.top_p, sampling.min_p))
    assert counts.sum() == counts[kept].sum()
    expected = np.exp(z[kept] - z.max()).astype(np.float64)
    expected *= n / expected.sum()
    common = expected >= 5
    chi2 = ((counts[kept] - expected) ** 2 / expected)[common].sum()
    degrees = common.sum() - 1
    assert abs(chi2 - degrees) < 5 * np.sqrt(2 * degrees) + 5


@settings(deadline=None)
@given(st.integers(1, 900), st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_inverse_cdf_is_the_first_token_above(vocab, seed, u):
    rng = np.random.default_rng(seed)
    weights = (rng.random(vocab) * (rng.random(vocab) < 0.3)).astype(np.float32)
    weights[rng.integers(vocab)] = 0.5
    got = int(inverse_cdf(torch.from_numpy(weights)[None], torch.tensor([u], dtype=torch.float64))[0])
    cumulative = weights.astype(np.float64).cumsum()
    assert weights[got] > 0
    assert cumulative[got] > u * cumulative[-1] * (1 - 1e-12)
    assert got == 0 or cumulative[got - 1] <= u * cumulative[-1] * (1 + 1e-12)


def test_the_largest_uniform_number_draws_a_token_with_weight():
    weights = torch.zeros(1, 600)
    weights[0, 3] = weights[0, 300] = 1e-30
    assert inverse_cdf(weights, torch.tensor([1 - 2**-53], dtype=torch.float64)).item() == 300
    assert inverse_cdf(weights, torch.tensor([0.0], dtype=torch.float64)).item() == 3


def test_a_row_draws_the_same_alone_and_among_others():
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(6, 300)).astype(np.float32))
    samplings = [
        Sampling(),
        Sampling(temperature=1.0, seed=5),
        Sampling(temperature=0.7, top_p=0.9, seed=6),
        Sampling(temperature=2.0, top_k=250, min_p=0.001, seed=7),
        Sampling(repetition_penalty=1.5, logit_bias=((7, 2.0),)),
        Sampling(temperature=1e-6, seed=9),
    ]
    before = logits.clone()
    together = draw(logits, samplings, range(10, 16))
    assert torch.equal(logits, before)
    for i, sampling in enumerate(samplings):
        assert draw(logits[i : i + 1], [sampling], [10 + i])[0] == together[i]
    assert together[0] == logits[0].argmax()
    assert together[5] == logits[5].argmax()


def test_repetition_penalty_counts_the_prompt_as_transformers_does():
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=50).astype(np.float32))
    tokens = ints(3, 4, 3, 20, 41)
    want = RepetitionPenaltyLogitsProcessor(1.7)(torch.from_numpy(tokens)[None], logits[None].clone())[0]
    got = logits.clone()
    Penalties(Sampling(repetition_penalty=1.7), tokens, 4, 50, CPU).apply(got, ints())
    torch.testing.assert_close(got, want)


def test_presence_and_frequency_count_output_only():
    logits = torch.zeros(10)
    penalties = Penalties(Sampling(presence_penalty=0.5, frequency_penalty=0.25), ints(1, 2, 3, 3), 2, 10, CPU)
    penalties.add(ints(4))
    got = logits.clone()
    penalties.apply(got, ints(4, 5))
    assert got.tolist() == [0, 0, 0, -1.0, -1.0, -0.75, 0, 0, 0, 0]
    again = logits.clone()
    penalties.apply(again, ints())
    assert again.tolist() == [0, 0, 0, -1.0, -0.75, 0, 0, 0, 0, 0]


def test_bias_bans_and_forces():
    logits = torch.zeros(2, 20)
    logits[:, 4] = 3.0
    tokens = draw(
        logits, [Sampling(logit_bias=((4, -100.0),)), Sampling(temperature=1.0, logit_bias=((9, 100.0),))], [1, 1]
    )
    assert tokens.tolist() == [0, 9]
