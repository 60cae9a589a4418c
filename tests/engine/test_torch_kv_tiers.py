"""KV goes down to slower tiers and comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_models import loaded, random_tokens, save_random

from headway.engine.errors import ModelError
from headway.engine.kv_tiers import KVTiers, block_bytes, open_store
from headway.engine.settings import KVTier
from headway.scheduler.config import SchedulerConfig, Tier
from headway.scheduler.request import Request
from headway.scheduler.scheduler import Scheduler

PROMPTS = [random_tokens(61, seed=seed) for seed in range(4)]
ROUNDS = 3
DEVICE_BLOCKS = 10
"""For one sequence at a time: each evicts the one before."""


@pytest.fixture(scope="module", params=["llama", "mistral-window"])
def model(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    save_random(directory, request.param, initializer_range=0.12)
    found = loaded(directory)
    yield found
    found.executor.close()


def tier(name: str, directory: Path, model, blocks: int) -> KVTier:
    return KVTier(name, blocks * block_bytes(model.executor.cache), str(directory))


def serve(model, tiers: list[KVTier], fail: bool = False) -> tuple[list[list[int]], Scheduler]:
    """Each prompt a few times over, one by one."""
    cache = model.executor.cache
    carrier = KVTiers(cache, {tier.name: open_store(cache, tier) for tier in tiers})
    config = SchedulerConfig(
        tuple(replace(group, num_blocks=DEVICE_BLOCKS) for group in model.groups),
        block_size=model.block_size,
        max_running=4,
        max_step_tokens=128,
        max_context=model.max_context,
        tiers=tuple(Tier(tier.name, tier.size_bytes // block_bytes(cache)) for tier in tiers),
    )
    brain, answers = Scheduler(config), []
    for i in range(ROUNDS * len(PROMPTS)):
        tokens = np.array(PROMPTS[i % len(PROMPTS)], np.int64)
        brain.add(Request(str(i), len(tokens), 8, tokens), i)
        answers.append(answer(brain, model.executor, carrier, fail))
    carrier.close()
    return answers, brain


def answer(brain: Scheduler, executor, carrier: KVTiers, fail: bool) -> list[int]:
    drawn: list[int] = []
    while not brain.is_idle or carrier.is_busy:
        plan = brain.plan(0)
        if plan is not None and hasattr(plan, "slots"):
            carrier.start(plan)
            executor.submit(plan)
            drawn += brain.commit(executor.collect(), 0).token_ids.tolist()
        for transfer, ok in carrier.take_arrived(wait_s=10):
            assert ok
            brain.arrived(transfer, not fail, 0)
        brain.check()
    return drawn


def test_what_comes_back_is_what_went_down(model, tmp_path: Path) -> None:
    plain, _ = serve(model, [])
    near, near_brain = serve(model, [tier("dram", tmp_path, model, 100)])
    far, far_brain = serve(model, [tier("dram", tmp_path, model, 6), tier("ssd", tmp_path, model, 100)])
    assert near == plain
    assert far == plain
    assert near_brain._transfers.blocks_loaded["dram"] >= (ROUNDS - 1) * len(PROMPTS)
    assert far_brain._transfers.blocks_loaded["ssd"] >= (ROUNDS - 1) * len(PROMPTS)
    assert not list(tmp_path.iterdir())


def test_where_copies_fail_all_is_computed_again(model, tmp_path: Path) -> None:
    plain, _ = serve(model, [])
    failing, brain = serve(model, [tier("dram", tmp_path, model, 100)], fail=True)
    assert failing == plain
    assert not brain._transfers.blocks_loaded


def test_a_tier_that_has_no_place_is_refused(model, tmp_path: Path) -> None:
    cache = model.executor.cache
    with pytest.raises(ModelError, match="kv_tier dram: 10 bytes hold no block of"):
        open_store(cache, KVTier("dram", 10, ""))
    with pytest.raises(ModelError, match=r"kv_tier dram: .* are more than the"):
        open_store(cache, KVTier("dram", 1 << 60, ""))
    with pytest.raises(ModelError, match=f"kv_tier ssd: .* bytes in {tmp_path}/none: No such file"):
        open_store(cache, tier("ssd", tmp_path / "none", model, 4))
    with pytest.raises(ModelError, match=r"kv_tier ssd: .* bytes in .*: (File too large|No space)"):
        open_store(cache, KVTier("ssd", 1 << 60, str(tmp_path)))
