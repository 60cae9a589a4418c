"""The calibrated model: never below the floor, equal to hand sums, coefficients checked."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import precision
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode, prefill
from headway.arithmetic.work import step_work
from headway.catalog import CatalogError, Figure
from headway.roofline import Coefficients, calibrated_cost, coefficients, floor_cost
from headway.roofline.calibrated import calibrated_energy_j
from headway.roofline.serving import operations_s
from headway.roofline.terms import (
    KINDS,
    all_experts_read,
    expert_missed,
    experts_left,
    launches,
    step_terms,
)
from tests.arithmetic.models import catalog, model
from tests.planner.deployments import deployed

SYSTEM = "hgx-h100"


@given(
    st.sampled_from(["llama-3.1-8b", "mixtral-8x7b", "qwen3-next-80b-a3b"]),
    st.integers(1, 512),
    st.integers(1, 30_000),
    st.sampled_from([1, 2, 4, 8]),
    st.floats(0.3, 1),
    st.floats(0.3, 1),
)
@settings(max_examples=40, deadline=None)
def test_never_below_the_floor(
    name: str, batch: int, context: int, tensor: int, compute: float, bandwidth: float
) -> None:
    shape, system, cut = model(name), catalog().system(SYSTEM), Parallelism(tensor=tensor)
    if any(layer.attention.num_heads % tensor for layer in shape.layers):
        return
    step = decode(spans(shape), batch, context)
    work = step_work(shape, step, cut=cut, domain=system.scaleup_chips)
    c = Coefficients(compute_efficiency=compute, expert_bandwidth_efficiency=bandwidth, imbalance=0.5)
    cost = calibrated_cost(work, step, system, c, cut)
    assert cost.step_s >= floor_cost(work, system, cut.chips).step_s * (1 - 1e-12)
    assert cost.chips == tensor


def test_launches_follow_the_operations_and_the_host_works_beside_them() -> None:
    shape, system = model("llama-3.1-8b"), catalog().system(SYSTEM)
    step = decode(spans(shape), 16, 1000)
    work = step_work(shape, step)
    bare = calibrated_cost(work, step, system, Coefficients()).step_s
    launched = calibrated_cost(work, step, system, Coefficients(layer_s=1e-5, launch_s=1e-6)).step_s
    assert launched - bare == pytest.approx(32 * 1e-5 + launches(work, system.chip) * 1e-6)
    gap_s = 1e-3 + 16e-6
    for host_beside, expected_s in ((0.0, bare + gap_s), (1.0, math.hypot(bare, gap_s))):
        c = Coefficients(host_s=1e-3, host_sequence_s=1e-6, host_beside=host_beside)
        hosted = calibrated_cost(work, step, system, c)
        assert hosted.step_s == pytest.approx(expected_s)
        assert hosted.host_s == pytest.approx(gap_s)


@pytest.mark.parametrize(("sequences", "fullest"), [(1, 1), (9, 3), (32, 8)])
def test_each_group_of_sequences_has_a_host_of_its_own(sequences: int, fullest: int) -> None:
    shape, system, cut = model("qwen3-30b-a3b"), catalog().system(SYSTEM), Parallelism(data=4, expert=4)
    step = decode(spans(shape), sequences, 1000)
    work = step_work(shape, step, cut=cut, domain=8)
    hosted = calibrated_cost(work, step, system, Coefficients(host_sequence_s=1e-3), cut)
    assert hosted.host_s == pytest.approx(fullest * 1e-3)
    assert step_terms(work, step, system, cut).sequences == pytest.approx([fullest])


@pytest.mark.parametrize(("system", "quantised"), [("hgx-h100", 32 * 5), ("hgx-a100", 0)])
def test_what_a_chip_multiplies_in_narrow_formats_is_quantised_first(system: str, quantised: int) -> None:
    """Query, key and value, output, gate and up, down; what attends stays in bf16."""
    shape, chip = model("llama-3.1-8b"), catalog().system(system).chip
    step = decode(spans(shape), 1, 100)
    wide, narrow = (launches(step_work(shape, step, precision(name)), chip) for name in ("bf16", "fp8"))
    assert narrow - wide == quantised


def test_weights_that_are_widened_first_are_read_more_slowly() -> None:
    shape, step_of = model("gpt-oss-20b"), precision("bf16", experts="mxfp4")
    step = decode(spans(shape), 1, 100)
    work = step_work(shape, step, step_of)
    for name, changes in (("hgx-h100", True), ("hgx-b200", False)):
        system = catalog().system(name)
        whole, half = (
            calibrated_cost(work, step, system, Coefficients(widened_efficiency=share)).memory_s for share in (1.0, 0.5)
        )
        assert (half > whole) == changes
        terms, one = step_terms(work, step, system, Parallelism()), Coefficients(widened_efficiency=0.5, overlap=1.0)
        assert operations_s(terms, asdict(one)) == pytest.approx(
            calibrated_cost(work, step, system, one).step_s, rel=1e-9
        )


def test_kernels_that_read_all_experts_take_as_long_for_one_token_as_for_many() -> None:
    shape, system = model("qwen3-30b-a3b"), catalog().system(SYSTEM)
    step = decode(spans(shape), np.array([1, 4, 256]), np.full(3, 100))
    asked = step_terms(step_work(shape, step), step, system, Parallelism())
    all_read = all_experts_read(asked)
    experts = asked.kind == KINDS.index("experts")
    weights_s = all_read.memory_s[experts].reshape(3, -1).sum(1)
    assert weights_s[0] == pytest.approx(asked.memory_s[experts].reshape(3, -1).sum(1)[2], rel=0.05)
    assert (all_read.memory_s[~experts] == asked.memory_s[~experts]).all()
    assert (all_read.missed == 0).all()


def test_each_collective_waits_for_its_rounds() -> None:
    shape, system, cut = model("llama-3.1-8b"), catalog().system(SYSTEM), Parallelism(tensor=8)
    step = decode(spans(shape), 1, 1)
    work = step_work(shape, step, cut=cut, domain=8)
    floor = floor_cost(work, system, 8)
    assert system.scaleup is not None
    assert system.scaleup.latency_s == 10e-6
    for round_s, expected_s in ((0.0, 10e-6), (3e-6, 3e-6)):
        cost = calibrated_cost(work, step, system, Coefficients(round_s=round_s), cut)
        assert cost.network_s - floor.network_s == pytest.approx(2 * 32 * 2 * expected_s)


def test_small_products_are_less_efficient() -> None:
    shape, system = model("llama-3.1-8b"), catalog().system(SYSTEM)
    slow = Coefficients(half_rows=100)
    for tokens, factor in ((100, 2.0), (300, 4 / 3)):
        step = prefill(spans(shape), tokens)
        work = step_work(shape, step)
        products = tuple(op for op in work.ops if not op.name.startswith("attend"))
        work = type(work)(products, (), work.layers, 0)
        slower, peak = (calibrated_cost(work, step, system, c).compute_s for c in (slow, Coefficients()))
        assert slower / peak == pytest.approx(factor)


def test_experts_dealt_out_are_asked_unevenly() -> None:
    shape, system = model("qwen3-30b-a3b"), catalog().system(SYSTEM)
    even, uneven = Coefficients(), Coefficients(imbalance=1.0)
    added = []
    for batch in (8, 4096):
        step, cut = decode(spans(shape), batch, 100), Parallelism(data=8, expert=8)
        work = step_work(shape, step, cut=cut, domain=8)
        one, other = (float(calibrated_cost(work, step, system, c, cut).step_s) for c in (even, uneven))
        added.append(other / one - 1)
        whole = step_work(shape, step)
        assert calibrated_cost(whole, step, system, even).step_s == calibrated_cost(whole, step, system, uneven).step_s
    assert added[0] > 5 * added[1] >= 0


@pytest.mark.parametrize("cut", [{"data": 8, "expert": 8}, {"data": 8}, {"tensor": 2, "data": 4, "expert": 8}])
@pytest.mark.parametrize("name", ["deepseek-v3", "mixtral-8x22b"])
def test_a_fuller_batch_is_never_faster(name: str, cut: dict[str, int]) -> None:
    """Neither where one group of sequences gets one more, nor where the busiest chip reads all of its experts."""
    where = replace(deployed(name, fitted=True, tensor=1), cut=Parallelism(**cut))
    steps_s = where.decode_s(np.arange(1, 400), 1024)
    assert (np.diff(steps_s) >= -1e-12).all()


def test_tokens_that_follow_others_read_fewer_experts() -> None:
    """8 of 128 are asked by one token, 8 x (2 - 1/16) by two that choose for themselves, all by very many."""
    shape, system = model("qwen3-30b-a3b"), catalog().system(SYSTEM)
    step = decode(spans(shape), np.array([1, 2, 16, 100_000]), 1)
    work = step_work(shape, step)
    experts = replace(work, ops=tuple(op for op in work.ops if op.part == "experts"), transfers=())
    alike, half, free = (
        calibrated_cost(experts, step, system, Coefficients(expert_variety=variety)).memory_s
        for variety in (0.0, 0.5, 1.0)
    )
    left = experts_left(np.array([1.0, 2.0, 16.0, 1e5]), expert_missed(work), 0.5)
    assert left[[0, 3]] == pytest.approx([1.0, 1.0])
    assert left[1] == pytest.approx((1 - (15 / 16) ** 1.5) / (1 - (15 / 16) ** 2))
    assert half / free == pytest.approx(left)
    assert alike[:2] / free[:2] == pytest.approx([1.0, 1 / (2 - 1 / 16)])
    assert (np.diff(half) > 0).all()


def test_a_model_without_experts_has_none_to_choose() -> None:
    shape, system = model("llama-3.1-8b"), catalog().system(SYSTEM)
    step = decode(spans(shape), np.array([1, 64]), 1000)
    work = step_work(shape, step)
    one, other = (calibrated_cost(work, step, system, Coefficients(expert_variety=v)).step_s for v in (0.1, 1.0))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"])
def test_columns_of_a_fit_price_a_step_as_its_operations_do(name: str) -> None:
    """Products of one kind are summed before compute and memory are compared: never more, and little less."""
    shape, system, cut = model(name), catalog().system(SYSTEM), Parallelism(tensor=8)
    c = Coefficients(0.6, 0.3, 0.4, 0.8, half_rows=60, bandwidth_efficiency=0.8, expert_bandwidth_efficiency=0.6)
    c = replace(c, expert_variety=0.5)
    step = decode(spans(shape), np.array([1, 16, 256, 2048]), np.array([1000, 1000, 4000, 500]))
    work = step_work(shape, step, precision("fp8"), cut, domain=8)
    cost = calibrated_cost(work, step, system, c, cut)
    apart = cost.step_s - cost.network_s - cost.host_s
    together = operations_s(step_terms(work, step, system, cut), {k: np.asarray(v) for k, v in asdict(c).items()})
    assert np.all(together <= apart * (1 + 1e-9))
    assert np.all(together > 0.85 * apart)


def test_energy_has_an_idle_and_a_dynamic_part() -> None:
    shape, system = model("llama-3.1-8b"), catalog().system(SYSTEM)
    step = decode(spans(shape), 16, 1000)
    work = step_work(shape, step)
    c = Coefficients(idle_w=100, compute_j_per_flop=1e-12, memory_j_per_byte=3e-11)
    cost = calibrated_cost(work, step, system, c)
    dynamic = float(work.total("flops")) * 1e-12 + float(work.memory_bytes) * 3e-11
    assert calibrated_energy_j(cost, c) == pytest.approx(float(cost.step_s) * 100 + dynamic)


def test_coefficients_come_from_figures_and_are_checked() -> None:
    def figure(value: float) -> Figure:
        return Figure(value, "", "measured", "a run", "2026-11")

    assert coefficients({"host_s": figure(1e-3), "tpot_median_error": figure(0.1)}) == Coefficients(host_s=1e-3)
    with pytest.raises(CatalogError, match=r"bandwidth_efficiency must be above 0 and at most 1, not 1\.2"):
        coefficients({"bandwidth_efficiency": figure(1.2)})
