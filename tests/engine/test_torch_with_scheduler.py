"""Brain and torch body together: whatever the brain decides about a request, its tokens are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_models import loaded, random_tokens, save_random

from headway.scheduler.config import SchedulerConfig, Speculation
from headway.scheduler.request import Request, Sampling
from headway.scheduler.scheduler import Scheduler

SAMPLINGS = [
    Sampling(),
    Sampling(temperature=1.0, seed=1),
    Sampling(temperature=0.8, top_p=0.9, repetition_penalty=1.2, frequency_penalty=0.3, seed=2),
]


@pytest.fixture(scope="module", params=["llama", "mistral-window", "qwen2-mixed"])
def model(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    save_random(directory, request.param, initializer_range=0.12)
    found = loaded(directory)
    yield found
    found.executor.close()


def requests(lengths=(3, 30, 47, 90), shared=24, max_tokens=30) -> list[Request]:
    """With a common prefix, and a repeated stretch so that prompt lookup finds drafts."""
    prefix = random_tokens(shared, seed=99)
    found = []
    for i, length in enumerate(lengths):
        own = random_tokens(length, seed=length)
        tokens = np.array(prefix + own + own[: length // 2], np.int64)
        sampling = SAMPLINGS[i % len(SAMPLINGS)]
        found.append(Request(f"r{i}", len(tokens), max_tokens, tokens, sampling=sampling))
    return found


def run(model, wanted, depth: int = 1, at_once: bool = True, **settings):
    """Tokens by request id, and the brain's statistics. `depth` plans are kept in flight."""
    num_blocks = settings.pop("num_blocks", None)
    groups = tuple(replace(g, num_blocks=num_blocks or g.num_blocks) for g in model.groups)
    settings = {"max_running": 16, "max_step_tokens": 512, **settings}
    config = SchedulerConfig(groups, block_size=model.block_size, max_context=model.max_context, **settings)
    brain, now = Scheduler(config), 0
    waiting, tokens = list(wanted), {r.id: [] for r in wanted}
    in_flight = 0
    while waiting or not brain.is_idle:
        while waiting and (at_once or brain.is_idle):
            brain.add(waiting.pop(0), now)
        now += 1
        plan = brain.plan(now) if in_flight < depth else None
        if plan is not None:
            model.executor.submit(plan)
            in_flight += 1
            continue
        assert in_flight, "nothing runs, and something is not finished"
        outcome = model.executor.collect()
        in_flight -= 1
        assert outcome.error is None
        assert outcome.failed is None
        committed = brain.commit(outcome, now)
        drawn = committed.token_ids.tolist()
        for request_id, count in zip(committed.request_ids, committed.counts.tolist(), strict=True):
            tokens[request_id] += drawn[:count]
            del drawn[:count]
        brain.check()
        assert all(end.reason == "length" for end in brain.take_ended())
    return tokens, brain.stats()


@pytest.fixture(scope="module")
def alone(model):
    tokens, _ = run(model, requests(), at_once=False, prefix_caching=False)
    assert all(len(t) == 30 for t in tokens.values())
    return tokens


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_batched(model, alone, depth):
    assert run(model, requests(), depth, prefix_caching=False)[0] == alone


@pytest.mark.parametrize("max_step_tokens", [16, 50])
def test_chunked(model, alone, max_step_tokens):
    assert run(model, requests(), max_step_tokens=max_step_tokens, prefix_caching=False)[0] == alone


@pytest.mark.parametrize("depth", [1, 2])
def test_after_prefix_hits(model, alone, depth):
    tokens, stats = run(model, requests(), depth)
    assert tokens == alone
    again, stats_of_one = run(model, requests(), depth, at_once=False)
    assert again == alone
    assert stats.prefix_hits_total > 0
    assert stats_of_one.prefix_hits_total > 0


@pytest.mark.parametrize("depth", [1, 2])
def test_after_preemption(model, alone, depth):
    num_blocks = 30  # Fewer than the four need together at their longest.
    tokens, stats = run(model, requests(), depth, num_blocks=num_blocks)
    assert tokens == alone
    if all(group.kind == "full" for group in model.groups):
        assert stats.preemptions_total > 0


@pytest.mark.parametrize("depth", [1, 2])
def test_with_speculation(model, alone, depth):
    speculation = Speculation(max_depth=4, ngram=1)
    tokens, stats = run(model, requests(), depth, speculation=speculation)
    assert tokens == alone
    assert stats.drafts_total > 0


def test_everything_at_once(model, alone):
    settings = {"num_blocks": 34, "max_step_tokens": 40, "speculation": Speculation(ngram=1)}
    assert run(model, requests(), 3, **settings)[0] == alone
