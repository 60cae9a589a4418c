from __future__ import annotations

import pytest
import torch
from random_models import loaded, save_random

from headway.engine.model import Model


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def seen_logits(monkeypatch):
    """Every logit that the body computes, call by call."""
    calls: list[torch.Tensor] = []
    original = Model.logits

    def spy(self, hidden):
        calls.append(original(self, hidden))
        return calls[-1]

    monkeypatch.setattr(Model, "logits", spy)
    return calls


@pytest.fixture(scope="session")
def llama_dir(tmp_path_factory):
    """A small random llama with moderate logits, so that sampling has something to choose from."""
    directory = tmp_path_factory.mktemp("llama")
    save_random(directory, "llama", initializer_range=0.12)
    return directory


@pytest.fixture
def llama(llama_dir):
    model = loaded(llama_dir)
    yield model
    model.executor.close()
