"""KV memory is planned from what is free."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_models import CASES, SMALL, rope
from transformers import AutoConfig

from headway.arithmetic.hf_config import shape_from_config
from headway.engine import memory
from headway.engine.arena import Arena, aligned_bytes
from headway.engine.errors import ModelError
from headway.engine.kv_cache import KVCache, cache_groups
from headway.engine.memory import plan_num_blocks

CPU = torch.device("cpu")


def shape_of(case: str):
    name, changes = CASES[case]
    model_type = name.removesuffix("Config").lower()
    config = AutoConfig.for_model(model_type, **{**SMALL, **rope("default"), **changes})
    return shape_from_config(config.to_dict())


def planned(shape, kv_bytes, context=512):
    return plan_num_blocks(shape, 8, torch.float32, CPU, max_context=context, kv_bytes=kv_bytes)


def test_groups_full_first_then_each_window():
    assert [(g.kind, g.window, g.layers) for g in cache_groups(shape_of("llama"))] == [("full", 0, (0, 1, 2))]
    assert [(g.kind, g.window, g.layers) for g in cache_groups(shape_of("mistral-window"))] == [
        ("window", 21, (0, 1, 2))
    ]
    mixed = cache_groups(shape_of("qwen2-mixed"))
    assert [(g.kind, g.window, g.layers) for g in mixed] == [("full", 0, (0,)), ("window", 24, (1, 2))]


@given(kv_bytes=st.integers(10_000, 2**26), case=st.sampled_from(["llama", "mistral-window", "qwen2-mixed"]))
def test_blocks_fill_the_budget_and_no_more(kv_bytes, case):
    shape = shape_of(case)
    try:
        blocks = planned(shape, kv_bytes)
    except ModelError:
        assert kv_bytes < 2**20
        return
    token_bytes = [
        sum(shape.layers[i].attention.kv_values_per_token * 4 for i in g.layers) for g in cache_groups(shape)
    ]
    used = sum(n * 8 * size for n, size in zip(blocks, token_bytes, strict=True))
    assert used <= kv_bytes
    assert used + 8 * sum(token_bytes) > kv_bytes


def test_a_mixed_model_runs_out_of_both_groups_together():
    full, window = planned(shape_of("qwen2-mixed"), 2**22)
    assert full / window == pytest.approx(512 / 8 / (24 / 8 + 1), rel=0.02)


def test_a_budget_that_is_too_small_names_what_is_needed():
    with pytest.raises(ModelError, match="one of each cache group takes"):
        planned(shape_of("llama"), 100)


def test_sizes_are_told_in_binary_units():
    with pytest.raises(ModelError, match=r"kv_bytes: 1048576\.00 GiB is more than the .* [GM]iB that are free on cpu"):
        planned(shape_of("llama"), 1 << 50)


def test_the_smaller_of_machine_and_control_group_counts(tmp_path, monkeypatch):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:    4000 kB\n")
    limit, usage = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(memory, "_CGROUP_FILES", ((limit, usage), (tmp_path / "none", tmp_path / "none")))
    assert memory.free_bytes(CPU) == 4000 * 1024
    limit.write_text("max\n")
    usage.write_text("1000\n")
    assert memory.free_bytes(CPU) == 4000 * 1024
    limit.write_text("501000\n")
    assert memory.free_bytes(CPU) == 500_000
    limit.write_text("500\n")
    assert memory.free_bytes(CPU) == 0


def test_default_budget_is_a_capped_share():
    assert memory.default_kv_bytes(2**30, CPU) == 2**28
    assert memory.default_kv_bytes(2**40, CPU) == memory.CPU_CAP_BYTES


def test_a_cache_starts_finite():
    """Memory that was never written is still multiplied, with weight zero."""
    cache = KVCache(shape_of("qwen2-mixed"), (7, 5), 8, torch.float32, CPU)
    assert [layer._k.shape for layer in cache.layers] == [(2 * 7, 64), (2 * 5, 64), (2 * 5, 64)]
    assert all((layer._k == 0).all() and (layer._v == 0).all() for layer in cache.layers)


def test_an_arena_hands_out_its_bytes_once():
    size = aligned_bytes((3, 5), torch.float32) + aligned_bytes((7,), torch.bfloat16)
    arena = Arena(size, CPU)
    a, b = arena.take((3, 5), torch.float32), arena.take((7,), torch.bfloat16)
    a.fill_(1)
    assert (b == 0).all()
    assert (a.data_ptr() % 64, b.data_ptr() % 64) == (0, 0)
    with pytest.raises(MemoryError):
        arena.take((1,), torch.float32)
