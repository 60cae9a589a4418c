"""The calibrated model: never below the floor, equal to hand sums, coefficients checked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.attends import spans
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode, prefill
from headway.arithmetic.work import step_work
from headway.catalog import CatalogError, Figure
from headway.roofline import Coefficients, calibrated_cost, coefficients, floor_cost
from headway.roofline.calibrated import calibrated_energy_j
from tests.arithmetic.models import catalog, model

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
    c = Coefficients(compute_efficiency=compute, bandwidth_efficiency=bandwidth)
    cost = calibrated_cost(work, step, system, c, cut)
    assert cost.step_s >= floor_cost(work, system, cut.chips).step_s * (1 - 1e-12)
    assert cost.chips == tensor


def test_overheads_add_up() -> None:
    shape, system = model("llama-3.1-8b"), catalog().system(SYSTEM)
    step = decode(spans(shape), 16, 1000)
    work = step_work(shape, step)
    bare = calibrated_cost(work, step, system, Coefficients())
    c = Coefficients(layer_s=1e-5, host_s=1e-3, host_sequence_s=1e-6)
    cost = calibrated_cost(work, step, system, c)
    assert cost.step_s - bare.step_s == pytest.approx(32 * 1e-5 + 1e-3 + 16e-6)
    assert cost.host_s == pytest.approx(32 * 1e-5 + 1e-3 + 16e-6)


def test_each_collective_waits_for_its_rounds() -> None:
    shape, system, cut = model("llama-3.1-8b"), catalog().system(SYSTEM), Parallelism(tensor=8)
    step = decode(spans(shape), 1, 1)
    work = step_work(shape, step, cut=cut, domain=8)
    cost = calibrated_cost(work, step, system, Coefficients(round_s=1e-6), cut)
    floor = floor_cost(work, system, 8)
    assert system.scaleup is not None
    assert system.scaleup.latency_s == 10e-6
    assert cost.network_s - floor.network_s == pytest.approx(2 * 32 * 2 * 11e-6)


def test_small_products_are_less_efficient() -> None:
    shape, system = model("llama-3.1-8b"), catalog().system(SYSTEM)
    c = Coefficients(half_rows=100)
    for tokens, factor in ((100, 2.0), (300, 4 / 3)):
        step = prefill(spans(shape), tokens)
        work = step_work(shape, step)
        slower, peak = (calibrated_cost(work, step, system, x).compute_s for x in (c, Coefficients()))
        assert slower / peak == pytest.approx(factor)


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
