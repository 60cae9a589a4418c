"""Logits equal those of Hugging Face transformers, family by family, on small random models."""

from __future__ import annotations

import pytest
import torch
from random_models import CASES, expected_logits, loaded, planner, random_tokens, save_random
from torch_planner import Part


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    reference = save_random(directory, request.param)
    model = loaded(directory)
    yield reference, model
    model.executor.close()


@pytest.mark.parametrize("chunk", [1, 5, 30, 1000], ids=lambda n: f"chunk{n}")
def test_logits_of_a_chunked_prompt(pair, seen_logits, chunk):
    reference, model = pair
    tokens = random_tokens(77, seed=chunk)
    plans = planner(model)
    row = plans.admit(tokens)
    while row.computed < len(tokens):
        count = min(chunk, len(tokens) - row.computed)
        plans.step([Part(row, count, samples=True)])
        del row.tokens[len(tokens) :]
        want = expected_logits(reference, tokens[: row.computed])[-1]
        torch.testing.assert_close(seen_logits[-1][-1], want, atol=2e-4, rtol=1e-4)


def test_logits_of_mixed_rows(pair, seen_logits):
    """One step with decodes of different lengths, a draft row, a short chunk and a long one."""
    reference, model = pair
    plans = planner(model)
    prompts = [random_tokens(n, seed=n) for n in (3, 17, 90, 40, 60)]
    rows = [plans.admit(prompt) for prompt in prompts]
    for row, done in zip(rows, (2, 16, 89, 33, 11), strict=True):
        plans.step([Part(row, done)])
    drafts = random_tokens(4, seed=1)
    parts = [Part(row, len(row.tokens) - row.computed, samples=True) for row in rows]
    parts[1].drafts = drafts
    plans.step(parts)
    got = seen_logits[-1]
    want = [expected_logits(reference, p)[-1:] for p in prompts]
    want[1] = expected_logits(reference, prompts[1] + drafts)[-5:]
    torch.testing.assert_close(got, torch.cat(want), atol=2e-4, rtol=1e-4)


def test_prompt_of_several_pieces(tmp_path, seen_logits):
    """Long chunks are attended in pieces; with and without a window, from a start inside a block."""
    for case in ("llama", "mistral-window", "qwen2-mixed"):
        reference = save_random(tmp_path / case, case)
        model = loaded(tmp_path / case)
        tokens = random_tokens(700, seed=3)
        plans = planner(model)
        row = plans.admit(tokens)
        plans.step([Part(row, 13)])
        plans.step([Part(row, 687, samples=True)])
        want = expected_logits(reference, tokens)[-1]
        torch.testing.assert_close(seen_logits[-1][0], want, atol=1e-3, rtol=1e-3)
        model.executor.close()


@pytest.mark.parametrize("case", ["llama", "mistral-window", "qwen3"])
def test_bfloat16_stays_near_float32(tmp_path, seen_logits, case):
    reference = save_random(tmp_path, case, initializer_range=0.1)
    model = loaded(tmp_path, dtype="bfloat16")
    tokens = random_tokens(60, seed=4)
    plans = planner(model)
    plans.prefill([plans.admit(tokens)], chunk=25)
    want = expected_logits(reference, tokens)[-1]
    difference = (seen_logits[-1][0] - want).abs().max()
    assert seen_logits[-1].dtype == torch.float32
    assert difference < 0.1 * want.abs().max()
    model.executor.close()
