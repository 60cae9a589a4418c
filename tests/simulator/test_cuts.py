"""Replicas cut by data, context and pipeline: step times against the cost model and the planner, and KV blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headway.arithmetic.cache import cache_terms, kv_bytes
from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism, fullest_stage, kv_shards, weight_bytes_per_chip
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.step_shape import decode, rows
from headway.arithmetic.work import step_work
from headway.planner.deployment import Deployment
from headway.roofline import BOUNDS, Coefficients, calibrated_cost, floor_cost, memory_plan
from headway.simulator.executor import Timer
from headway.simulator.kv_memory import USABLE, cache_group_blocks, device_block_bytes
from headway.simulator.simulation import Setup, simulate
from headway.simulator.staged_time import step_timer
from headway.simulator.step_time import StepTime
from headway.simulator.tier_memory import TierMemory
from tests.simulator.drive import lone
from tests.simulator.test_step_time import CATALOG, FITTED, SYSTEM, random_step, timed

COSTS = (None, FITTED, replace(FITTED, overlap=0.25, host_beside=0.75, imbalance=0.4))
FP8 = precision("fp8", "bf16")


def model_of(name: str) -> ModelShape:
    return shape_from_config(CATALOG.config(name))


@st.composite
def cuts(draw: st.DrawFn, pipelines: tuple[int, ...] = (1,)) -> Parallelism:
    """Of at most 64 chips a stage, experts on all, some or none of them."""
    sizes = st.sampled_from([1, 2, 3, 4])
    tensor, data, context = draw(sizes), draw(st.sampled_from([1, 2, 5, 16])), draw(sizes)
    chips = tensor * data * context
    expert = draw(st.sampled_from([n for n in (1, 2, 4, chips) if chips % n == 0]))
    return Parallelism(tensor, draw(st.sampled_from(pipelines)), expert, data, context)


def checked(model: ModelShape, cut: Parallelism) -> None:
    try:
        cut.check(model)
    except ShapeError:
        assume(False)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(CATALOG.configs)), cuts(), st.sampled_from(COSTS), st.integers(0, 1 << 30))
def test_every_cut_is_the_cost_model(name: str, cut: Parallelism, coefficients: Coefficients | None, seed: int) -> None:
    model = model_of(name)
    checked(model, cut)
    timer = step_timer(model, FP8, cut, SYSTEM, 2048, coefficients)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        shape = random_step(timer.spans, rng)
        work = step_work(model, shape, FP8, cut, domain=SYSTEM.scaleup_chips)
        if coefficients is None:
            cost = floor_cost(work, SYSTEM, cut.chips)
        else:
            cost = calibrated_cost(work, shape, SYSTEM, coefficients, cut)
        step = timed(timer, shape)
        assert step.device_ns + step.host_ns == pytest.approx(float(cost.step_s) * 1e9, abs=1.01, rel=1e-9)
        assert BOUNDS[step.bound] == cost.bound[0]


@pytest.mark.parametrize("coefficients", COSTS)
@pytest.mark.parametrize("cut", [Parallelism(data=2, context=2), Parallelism(2, 3, 4, 2), Parallelism(pipeline=4)])
@pytest.mark.parametrize("name", ["gemma-3-27b", "deepseek-v3", "qwen3-next-80b-a3b"])
def test_many_steps_at_once_are_the_same_as_one_by_one(
    name: str, cut: Parallelism, coefficients: Coefficients | None
) -> None:
    timer = step_timer(model_of(name), FP8, cut, SYSTEM, 64, coefficients, 1e-4)
    starts = np.array([10, 3000, 511, 7, 100_000], np.int64)
    steps = [rows(timer.spans, starts + k).total() for k in range(30)]
    columns = (
        [np.array([getattr(s, field)[g] for s in steps]) for g in range(len(timer.spans))]
        for field in ("pairs", "reads", "writes")
    )
    together = timer.several(30, (5, 5, 5, *columns))
    alone = [timed(timer, s) for s in steps]
    assert together.device_ns.tolist() == [step.device_ns for step in alone]
    assert np.broadcast_to(together.bounds, 30).tolist() == [step.bound for step in alone]
    assert {together.host_ns} == {step.host_ns for step in alone}


def test_a_table_of_whole_steps_knows_no_busiest_chip() -> None:
    for cut in (Parallelism(data=2), Parallelism(context=2)):
        with pytest.raises(ValueError, match="DealtTime"):
            StepTime(model_of("llama-3.1-8b"), Precision(), cut, SYSTEM, 16)


# Pipelines


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "gemma-3-27b", "deepseek-v3", "gpt-oss-120b"]),
    cuts(pipelines=(2, 3, 4, 8)),
    st.integers(1, 200),
    st.integers(1, 100_000),
)
def test_a_steady_decode_on_a_pipeline_is_the_planners(name: str, cut: Parallelism, batch: int, context: int) -> None:
    """But for layers that do not divide by the stages, which the planner has no stage wait for."""
    model = model_of(name)
    checked(model, cut)
    planned_s = float(Deployment(name, model, SYSTEM, FP8, cut).decode_s(batch, context))
    timer = step_timer(model, FP8, cut, SYSTEM, 256)
    step = timed(timer, decode(timer.spans, batch, context))
    layers = len(model.layers)
    fullest = -(-layers // cut.pipeline) * cut.pipeline / layers
    assert step.device_ns == pytest.approx(planned_s * fullest * 1e9, abs=2, rel=1e-9)


def test_a_pipeline_with_too_few_rows_has_bubbles() -> None:
    """Up to as many rows as stages take no longer than one; a long prompt alone passes stage after stage."""
    model, one, four = model_of("llama-3.1-70b"), Parallelism(tensor=8), Parallelism(tensor=8, pipeline=4)
    whole, staged = (step_timer(model, FP8, cut, SYSTEM, 4096) for cut in (one, four))

    def took_ns(timer: Timer, batch: int, count: int = 1) -> int:
        return timed(timer, rows(timer.spans, 1000, count).times(batch)).device_ns

    assert took_ns(staged, 4) == took_ns(staged, 1)
    assert took_ns(staged, 1) >= took_ns(whole, 1)
    assert took_ns(staged, 1, 4096) >= took_ns(whole, 1, 4096)
    assert took_ns(staged, 8, 512) < 0.3 * took_ns(whole, 8, 512)


# How many KV blocks there are


@pytest.mark.parametrize("cut", [Parallelism(), Parallelism(tensor=8), Parallelism(tensor=2, pipeline=4, data=2)])
def test_the_devices_cache_and_the_weights_fit_on_its_chips(cut: Parallelism) -> None:
    """The summary's bytes of KV on the device, of every model, windows and states included."""
    system, checked = CATALOG.system("hgx-b200"), 0
    room_bytes = system.chip.hbm_bytes * USABLE
    for name in CATALOG.configs:
        model = model_of(name)
        try:
            chip_bytes = weight_bytes_per_chip(model, FP8, cut)
            groups = cache_group_blocks(model, system.chip, FP8, cut, 16, 64, 8192)
        except ShapeError:
            continue
        cache_bytes = groups[0].num_blocks * device_block_bytes(model, FP8, 16)
        assert cache_bytes <= (room_bytes - chip_bytes) * cut.chips, name
        checked += 1
    assert checked > 10


def test_weights_that_do_not_fit_are_refused_however_many_blocks_are_asked_for() -> None:
    model = model_of("llama-3.1-70b")
    with pytest.raises(ShapeError, match="no room for a KV block"):
        cache_group_blocks(model, SYSTEM.chip, Precision(), Parallelism(), 16, 64, 8192, num_blocks=100)
    (group,) = cache_group_blocks(model, SYSTEM.chip, Precision(), Parallelism(4), 16, 64, 8192, num_blocks=100)
    assert group.num_blocks == 100


def test_the_summarys_cache_of_a_model_with_windows_is_no_more_than_its_chip_has_room_for() -> None:
    model = model_of("gemma-3-27b")
    device, _ = simulate(Setup(model, SYSTEM, tiers=(TierMemory("dram", 1e9, 1e9),)), lone((0.0, 4000, 40))).kv
    assert device.capacity_bytes <= SYSTEM.chip.hbm_bytes - weight_bytes_per_chip(model, Precision(), Parallelism())
    assert 0 < device.mean_used_bytes <= kv_bytes(model, 4040, Precision())


def full_blocks(model: ModelShape, cut: Parallelism, size: int = 16) -> int:
    return cache_group_blocks(model, SYSTEM.chip, FP8, cut, size, 64, 8192)[0].num_blocks


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"]), cuts(pipelines=(1, 2, 4)))
def test_blocks_fill_the_fullest_chip_as_the_planner_counts(name: str, cut: Parallelism) -> None:
    model, size = model_of(name), 16
    checked(model, cut)
    length = 1024
    plan = memory_plan(model, SYSTEM.chip, length, 1, FP8, cut)
    assume(plan.max_batch > cut.data)
    blocks = full_blocks(model, cut, size)
    sequences = blocks // cut.data // (length // size) * cut.data
    assert sequences == plan.max_batch
    stage = fullest_stage(model, cut)
    room_bytes = SYSTEM.chip.hbm_bytes * 0.9 - weight_bytes_per_chip(model, FP8, cut)
    shards = kv_shards(cut.tensor, cache_terms(model, FP8)[0].kv_heads)
    block_bytes = kv_bytes(model, size, FP8) * stage / cut.context / shards
    assert blocks // cut.data == int(room_bytes / block_bytes + 1e-9)


def test_each_data_group_has_windows_and_states_for_its_own_sequences() -> None:
    model, cut = model_of("gpt-oss-20b"), Parallelism(data=3, context=2)
    groups = cache_group_blocks(model, SYSTEM.chip, FP8, cut, 16, 64, 512)
    assert {(g.kind, g.window): g.num_blocks for g in groups}["window", 128] == 66 * (128 // 16 + 2) + 3 * 512 // 16


@given(st.integers(1, 9), st.integers(1, 20_000), st.sampled_from([1, 2, 3]))
def test_a_window_has_room_for_a_prompt_in_chunks_however_few_run(running: int, chunk: int, data: int) -> None:
    """In each data group, as many blocks as the scheduler says that one sequence may need at once."""
    cut = Parallelism(data=data)
    groups = cache_group_blocks(model_of("gpt-oss-20b"), SYSTEM.chip, FP8, cut, 16, running, chunk)
    assert groups[1].num_blocks // data >= (groups[1].window + chunk) // 16 + 2
