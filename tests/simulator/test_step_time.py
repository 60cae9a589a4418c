"""The tabulated step time against the cost model itself, for every catalogued model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.arithmetic.formats import precision
from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape, rows
from headway.arithmetic.work import step_work
from headway.catalog import load_catalog
from headway.roofline import BOUNDS, Coefficients, calibrated_cost, floor_cost
from headway.simulator.executor import Timer
from headway.simulator.kv_memory import cache_group_blocks
from headway.simulator.simulation import Setup, simulate
from headway.simulator.step_time import Step, StepTime
from tests.simulator.drive import lone

CATALOG = load_catalog()
SYSTEM = CATALOG.system("hgx-h100")
FITTED = Coefficients(
    compute_efficiency=0.7,
    half_rows=200,
    bandwidth_efficiency=0.8,
    link_efficiency=0.5,
    round_s=5e-6,
    layer_s=4e-5,
    expert_layer_s=9e-5,
    host_s=1e-4,
    host_sequence_s=4e-6,
)


def random_step(spans, rng: np.random.Generator) -> StepShape:
    """A few decodes and chunks, some of which sample."""
    n = int(rng.integers(1, 40))
    starts = rng.integers(0, 20_000, n)
    counts = np.where(rng.uniform(size=n) < 0.8, 1, rng.integers(1, 50, n))
    return rows(spans, starts, counts, rng.integers(0, 2, n)).total()


def timed(step_time: Timer, shape: StepShape) -> Step:
    sums = ([int(x) for x in by_span] for by_span in (shape.pairs, shape.reads, shape.writes))
    return step_time.one((int(shape.tokens), int(shape.sequences), int(shape.sampled), *sums))


@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("name", list(CATALOG.configs))
def test_it_is_the_cost_model(name: str, tensor: int) -> None:
    model = shape_from_config(CATALOG.config(name))
    cut, p = Parallelism(tensor=tensor), precision("fp8", "bf16")
    try:
        cut.check(model)
    except ShapeError:
        pytest.skip(f"cannot be cut by {tensor}")
    rng = np.random.default_rng(1)
    for coefficients in (None, FITTED, replace(FITTED, overlap=0.25, host_beside=0.75)):
        step_time = StepTime(model, p, cut, SYSTEM, 2048, coefficients)
        for _ in range(4):
            shape = random_step(step_time.spans, rng)
            work = step_work(model, shape, p, cut, domain=SYSTEM.scaleup_chips)
            if coefficients is None:
                cost = floor_cost(work, SYSTEM, cut.chips)
            else:
                cost = calibrated_cost(work, shape, SYSTEM, coefficients, cut)
            step = timed(step_time, shape)
            took_ns = step.device_ns + step.host_ns
            assert took_ns == pytest.approx(float(cost.step_s) * 1e9, abs=1.01, rel=1e-9)
            assert BOUNDS[step.bound] == cost.bound[0]


@pytest.mark.parametrize("coefficients", [None, FITTED, replace(FITTED, host_beside=1.0)])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "qwen3-next-80b-a3b"])
def test_many_steps_at_once_are_the_same_as_one_by_one(name: str, coefficients: Coefficients | None) -> None:
    step_time = StepTime(
        shape_from_config(CATALOG.config(name)), precision(), Parallelism(), SYSTEM, 64, coefficients, 1e-4
    )
    starts = np.array([10, 3000, 511], np.int64)
    steps = [rows(step_time.spans, starts + k).total() for k in range(30)]
    columns = (
        [np.array([getattr(s, field)[g] for s in steps]) for g in range(len(step_time.spans))]
        for field in ("pairs", "reads", "writes")
    )
    together = step_time.several(30, (3, 3, 3, *columns))
    alone = [timed(step_time, s) for s in steps]
    assert together.device_ns.tolist() == [step.device_ns for step in alone]
    assert np.broadcast_to(together.bounds, 30).tolist() == [step.bound for step in alone]
    assert {together.host_ns} == {step.host_ns for step in alone}


@pytest.mark.parametrize("coefficients", [None, FITTED])
def test_more_bandwidth_or_compute_is_never_slower(coefficients: Coefficients | None) -> None:
    model, rng = shape_from_config(CATALOG.config("llama-3.1-8b")), np.random.default_rng(2)
    chip = SYSTEM.chip
    better = (
        replace(chip, hbm_bytes_per_s=chip.hbm_bytes_per_s * 1.5),
        replace(chip, bf16_flops_per_s=chip.flops_per_s("bf16") * 1.5),
    )
    base = StepTime(model, precision(), Parallelism(), SYSTEM, 2048, coefficients)
    shapes = [random_step(base.spans, rng) for _ in range(30)]
    for chip in better:
        system = replace(SYSTEM, chip=chip)
        faster = StepTime(model, precision(), Parallelism(), system, 2048, coefficients)
        assert all(timed(faster, s).device_ns <= timed(base, s).device_ns for s in shapes)


# How many KV blocks there are


def blocks(name: str, tensor: int = 1, **more: object) -> dict[tuple[str, int], int]:
    model = shape_from_config(CATALOG.config(name))
    groups = cache_group_blocks(model, SYSTEM.chip, precision(), Parallelism(tensor=tensor), 16, 64, 8192, **more)  # type: ignore[arg-type]
    return {(g.kind, g.window): g.num_blocks for g in groups}


def test_blocks_fill_what_the_weights_leave() -> None:
    room_bytes = 0.9 * 80e9 - 8.03e9 * 2
    assert blocks("llama-3.1-8b")["full", 0] == pytest.approx(room_bytes / (131_072 * 16), rel=0.001)
    halves = blocks("llama-3.1-8b", tensor=2)["full", 0]
    assert halves == pytest.approx((0.9 * 80e9 - 8.03e9) / (65_536 * 16), rel=0.001)
    assert blocks("llama-3.1-8b", num_blocks=77) == {("full", 0): 77}


def test_windows_and_states_have_groups_of_their_own() -> None:
    assert set(blocks("gpt-oss-20b")) == {("full", 0), ("window", 128)}
    assert blocks("gpt-oss-20b")["window", 128] == 64 * (128 // 16 + 2) + 8192 // 16
    assert blocks("qwen3-next-80b-a3b", tensor=4)["state", 0] == 64


def test_a_model_of_states_alone_runs_without_a_longest_sequence() -> None:
    config = {"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "vocab_size": 32_768}
    setup = Setup(shape_from_config(config), SYSTEM)
    assert [group.kind for group in setup.scheduler_config().groups] == ["state"]
    assert simulate(setup, lone((0.0, 512, 64))).steps == 64


def test_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="no room for a KV block"):
        blocks("deepseek-v3")
