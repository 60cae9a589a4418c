"""Drafts are accepted exactly while they equal the draw, so output is the same with and without them."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import planner, random_tokens
from torch_planner import Part

from headway.scheduler.request import Sampling

SAMPLINGS = {
    "greedy": Sampling(),
    "seeded": Sampling(temperature=1.0, seed=11),
    "penalised": Sampling(
        temperature=0.8, top_p=0.95, repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.3, seed=12
    ),
    "biased": Sampling(repetition_penalty=1.2, frequency_penalty=1.0, logit_bias=((3, 1.5), (9, -100.0))),
}


@pytest.fixture(params=SAMPLINGS)
def sampling(request):
    return SAMPLINGS[request.param]


def alone(model, prompt, sampling, steps):
    return planner(model).generate([prompt], steps, sampling)[0]


def test_output_does_not_depend_on_drafts(llama, sampling):
    prompts = [random_tokens(n, seed=n) for n in (9, 30, 3)]
    plain = [alone(llama, prompt, sampling, 40) for prompt in prompts]
    plans = planner(llama, seed=1)
    rows = [plans.admit(prompt, sampling) for prompt in prompts]
    plans.prefill(rows)
    rng = np.random.default_rng(0)
    accepted = 0
    while unfinished := [i for i, row in enumerate(rows) if len(row.tokens) - len(prompts[i]) < 40]:
        parts = []
        for i in unfinished:
            drawn = len(rows[i].tokens) - len(prompts[i])
            drafts = plain[i][drawn : drawn + int(rng.integers(0, 6))]
            if drafts and rng.random() < 0.5:
                drafts[rng.integers(len(drafts))] = int(rng.integers(131))
            parts.append(Part(rows[i], 1, drafts, samples=True))
        outcome = plans.step(parts)
        accepted += 0 if outcome.accepted is None else int(outcome.accepted.sum())
    assert accepted > 20
    for row, prompt, want in zip(rows, prompts, plain, strict=True):
        assert row.tokens[len(prompt) :][:40] == want


def test_accepted_up_to_the_first_wrong_draft(llama, sampling):
    prompt = random_tokens(12, seed=2)
    want = alone(llama, prompt, sampling, 6)
    for right in range(5):
        drafts = want[1:5]
        if right < 4:
            drafts[right] = (drafts[right] + 1) % 131
        plans = planner(llama)
        row = plans.admit(prompt, sampling)
        plans.prefill([row])
        outcome = plans.step([Part(row, 1, drafts, samples=True)])
        assert outcome.accepted.tolist() == [right]
        assert outcome.token_ids.tolist() == want[1 : right + 2]


def test_rows_with_and_without_drafts_in_one_step(llama):
    """`accepted` has an entry for every sampling row, and tokens stand row by row."""
    prompts = [random_tokens(n, seed=n) for n in (5, 6, 7, 8)]
    want = [alone(llama, prompt, Sampling(), 4) for prompt in prompts]
    plans = planner(llama)
    rows = [plans.admit(prompt) for prompt in prompts]
    plans.prefill(rows[:3])
    wrong = (want[1][1] + 1) % 131
    outcome = plans.step(
        [
            Part(rows[0], 1, want[0][1:3], samples=True),
            Part(rows[3], 4),
            Part(rows[1], 1, [wrong], samples=True),
            Part(rows[2], 1, samples=True),
        ]
    )
    assert outcome.accepted.tolist() == [2, 0, 0]
    assert outcome.token_ids.tolist() == [*want[0][1:4], want[1][1], want[2][1]]
