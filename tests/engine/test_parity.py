"""Logits equal those of Hugging Face transformers, family by family, on small random models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from planner import Part, Planner

from headway.engine.kv_cache import cache_groups
from headway.engine.loading import load

SMALL = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": 5,
}


def rope(kind: str, **more: float) -> dict:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
CASES = {
    "llama": ("LlamaConfig", {}),
    "llama-tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "llama-mqa": ("LlamaConfig", {"num_key_value_heads": 1}),
    "llama-mha": ("LlamaConfig", {"num_key_value_heads": 6}),
    "llama-head-dim": ("LlamaConfig", {"head_dim": 24}),
    "llama-biases": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}),
    "llama-gelu": ("LlamaConfig", {"hidden_act": "gelu_pytorch_tanh"}),
    "llama-linear-rope": ("LlamaConfig", rope("linear", factor=4.0)),
    "llama-llama3-rope": ("LlamaConfig", LLAMA3),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral-window": ("MistralConfig", {"sliding_window": 21}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2-mixed": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "qwen3-tied": ("Qwen3Config", {"head_dim": 8, "tie_word_embeddings": True}),
}


def save_random(directory, case: str, **more):
    """A transformers model with random weights, biases and norms included, saved and returned."""
    name, changes = CASES[case]
    config = getattr(transformers, name)(**{**SMALL, **changes, **more})
    torch.manual_seed(len(case))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.5)
        elif "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.save_pretrained(directory)
    return model


def loaded(directory, **more):
    return load(
        directory,
        **{"dtype": "float32", "device": "cpu", "block_size": 8, "max_running": 16, "kv_bytes": 2**22, **more},
    )


def planner(model, seed: int = 0) -> Planner:
    return Planner(
        model.executor, cache_groups(model.shape), [g.num_blocks for g in model.groups], model.block_size, seed
    )


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    reference = save_random(directory, request.param)
    model = loaded(directory)
    yield reference, model
    model.executor.close()


@pytest.fixture
def seen_logits(monkeypatch):
    """Every logit that the body computes, call by call."""
    from headway.engine.model import Model

    calls: list[torch.Tensor] = []
    original = Model.logits

    def spy(self, hidden):
        calls.append(original(self, hidden))
        return calls[-1]

    monkeypatch.setattr(Model, "logits", spy)
    return calls


def random_tokens(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, SMALL["vocab_size"], count).tolist()


def expected_logits(reference, tokens) -> torch.Tensor:
    with torch.inference_mode():
        return reference(torch.tensor([tokens])).logits[0]


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
