"""The default model against transformers."""

from __future__ import annotations

import pytest
import torch
import transformers
from random_models import planner
from tokenizers import Tokenizer

from headway.engine.loading import load
from headway.engine.model_store import resolve_model

PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "1, 1, 2, 3, 5, 8,",
    "서울은 대한민국의",
    "Once upon a time, in a small village by the sea, there lived a fisherman who " + "mended his nets and " * 12,
]
STEPS = 24
CLOSE = 1e-4
"""Two best logits nearer than this may come out in either order."""


@pytest.fixture(scope="session")
def directory():
    return resolve_model(None)


@pytest.fixture(scope="session")
def prompts(directory):
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    chat = "<|im_start|>user\nThe capital of France is<|im_end|>\n<|im_start|>assistant\n"
    return [tokenizer.encode(text).ids for text in (*PROMPTS, chat)]


@pytest.fixture(scope="session")
def reference(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def outputs(directory, prompts):
    """Greedy, all in one batch, prompts in chunks."""
    model = load(directory, dtype="float32", device="cpu", max_running=8, kv_bytes=2**28)
    found = planner(model).generate(prompts, STEPS, chunk=20)
    model.executor.close()
    return found


def test_greedy_tokens_are_those_of_transformers(reference, prompts, outputs):
    for prompt, drawn in zip(prompts, outputs, strict=True):
        with torch.inference_mode():
            logits = reference(torch.tensor([prompt + drawn[:-1]])).logits[0, len(prompt) - 1 :]
        best = logits.amax(-1)
        chosen = logits.gather(1, torch.tensor(drawn)[:, None])[:, 0]
        assert ((best - chosen) < CLOSE).all()


def test_it_knows_the_capital(directory, outputs):
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    text = tokenizer.decode(outputs[-1], skip_special_tokens=False)
    assert text.startswith("The capital of France is Paris.<|im_end|>")


def test_bfloat16_agrees(directory, prompts):
    model = load(directory, dtype="bfloat16", device="cpu", max_running=8, kv_bytes=2**28)
    text = Tokenizer.from_file(str(directory / "tokenizer.json")).decode(planner(model).generate(prompts[-1:], 8)[0])
    model.executor.close()
    assert text.startswith("The capital of France is Paris.")
    assert model.dtype == "bfloat16"


def test_what_the_directory_says(directory, outputs):
    del outputs
    model = load(directory, max_running=1, kv_bytes=2**24)
    model.executor.close()
    assert model.eos_token_ids == (2,)
    assert (model.max_context, model.shape.vocab, model.shape.num_params) == (8192, 49152, 134_515_008)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    assert tokenizer.encode("x   12").ids == tokenizer.encode("x   1").ids + tokenizer.encode("2").ids
