"""The floor is the longest of three times, each by hand; and no change that adds work makes it shorter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import precision
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode, prefill, rows
from headway.arithmetic.work import step_work
from headway.catalog import CatalogError
from headway.roofline import floor_cost, op_points, rate_flops_per_s
from headway.roofline.energy import flops_per_byte_read
from tests.arithmetic.models import catalog, model

L8, L70, V3 = "llama-3.1-8b", "llama-3.1-70b", "deepseek-v3"


def test_decode_of_one_is_bound_by_reading_the_weights() -> None:
    shape, system = model(L8), catalog().system("hgx-h100")
    cost = floor_cost(step_work(shape, decode(spans(shape), 1, 1)), system)
    weights = 2 * (shape.num_params - shape.vocab * shape.hidden)  # Of the embedding only a row is read.
    assert cost.step_s == pytest.approx(weights / 3.35e12, rel=1e-3)
    assert cost.bound == ("memory_bandwidth",)
    assert cost.bandwidth_utilisation == 1
    assert cost.arithmetic_utilisation < 0.01


def test_a_long_prefill_is_bound_by_compute() -> None:
    shape, system = model(L8), catalog().system("hgx-h100")
    cost = floor_cost(step_work(shape, prefill(spans(shape), 8192)), system)
    assert cost.bound == ("compute",)
    assert cost.compute_s == pytest.approx(cost.flops / 989e12)
    assert cost.intensity > system.chip.ridge("bf16")


def test_network_can_be_the_bound() -> None:
    shape, system = model(V3), catalog().system("h100-pcie-node")
    cut = Parallelism(data=64, expert=64)
    work = step_work(shape, decode(spans(shape), 16_384, 512), precision("fp8"), cut, domain=system.scaleup_chips)
    cost = floor_cost(work, system, cut.chips)
    assert cost.bound == ("network",)
    assert (cost.step_s, cost.chips) == (cost.network_s, 64)


def test_the_floor_needs_the_links_that_a_cut_uses() -> None:
    shape, system = model(L8), catalog().system("rtx-4090-node")
    work = step_work(shape, decode(spans(shape), 1, 10), cut=Parallelism(tensor=2), domain=system.scaleup_chips)
    with pytest.raises(CatalogError, match=r"after attention needs a scale-out link, and rtx-4090-node has none"):
        floor_cost(work, system, 2)


def test_vectors_are_the_single_steps() -> None:
    shape, system = model(V3), catalog().system("hgx-b200")
    batches = np.array([1, 7, 64, 512])
    together = floor_cost(step_work(shape, decode(spans(shape), batches, 4096)), system)
    for i, batch in enumerate(batches):
        alone = floor_cost(step_work(shape, decode(spans(shape), int(batch), 4096)), system)
        assert together.step_s[i] == pytest.approx(float(alone.step_s), rel=1e-12)
        assert together.bound[i] == alone.bound[0]


@given(
    st.sampled_from([L8, V3, "gemma-3-27b", "qwen3-next-80b-a3b", "gpt-oss-120b", "deepseek-v4-flash"]),
    st.integers(1, 400),
    st.integers(1, 50_000),
    st.integers(0, 400),
    st.integers(0, 50_000),
)
@settings(max_examples=40, deadline=None)
def test_more_sequences_or_longer_ones_never_cost_less(
    name: str, batch: int, context: int, more: int, longer: int
) -> None:
    shape, system = model(name), catalog().system("hgx-h100")

    def step_s(batch: int, context: int) -> float:
        return float(floor_cost(step_work(shape, decode(spans(shape), batch, context)), system).step_s)

    assert step_s(batch + more, context) >= step_s(batch, context) * (1 - 1e-12)
    if name != "deepseek-v4-flash":  # It writes a compressed entry only every few tokens.
        assert step_s(batch, context + longer) >= step_s(batch, context) * (1 - 1e-12)
    assert step_s(batch + more, context) <= step_s(batch, context) + step_s(more, context) * (1 + 1e-12) or more == 0


def test_mixing_prefill_into_decode_reads_the_weights_once() -> None:
    shape, system = model(L70), catalog().system("hgx-h100")
    known = spans(shape)
    decodes, chunk = decode(known, 32, 4096), rows(known, 2048, 256)
    mixed = floor_cost(step_work(shape, decodes + chunk), system)
    apart = [floor_cost(step_work(shape, part), system) for part in (decodes, chunk)]
    assert max(part.step_s for part in apart) <= mixed.step_s < sum(part.step_s for part in apart)


def test_rates_fall_back_to_wider_ones_and_never_to_a_guess() -> None:
    a100, h100, bertha = (catalog().chip(name) for name in ("a100-sxm", "h100-sxm", "bertha-500"))
    assert rate_flops_per_s(h100, "fp4") == h100.fp8_flops_per_s
    assert rate_flops_per_s(a100, "fp8") == a100.bf16_flops_per_s
    with pytest.raises(CatalogError, match="no published bf16_flops_per_s"):
        rate_flops_per_s(bertha, "fp8")
    b300 = catalog().chip("b300-sxm")  # What is left of its int8 units is a fifteenth of bf16.
    assert rate_flops_per_s(b300, "int8") == b300.bf16_flops_per_s


@pytest.mark.parametrize(
    "system", ["hgx-h100", "gb300-nvl72", "vr200-nvl72", "mi355x-node", "hgx-a100", "tpu-v6e-node"]
)
def test_narrower_weights_are_never_slower(system: str) -> None:
    where = catalog().system(system)
    step = prefill(spans(model("llama-3.1-8b")), 4096)

    def floor_s(weights: str) -> float:
        return float(floor_cost(step_work(model("llama-3.1-8b"), step, precision(weights)), where).step_s)

    for wide, narrow in (("fp32", "bf16"), ("bf16", "int8"), ("bf16", "fp8"), ("fp8", "mxfp4"), ("bf16", "int4")):
        assert floor_s(narrow) <= floor_s(wide) * (1 + 1e-12)


def test_points_of_a_roofline_cover_the_work() -> None:
    shape, system = model(V3), catalog().system("hgx-h200")
    work = step_work(shape, decode(spans(shape), 64, 4096))
    points = op_points(work, system.chip)
    assert sum(p.flops for p in points) == pytest.approx(float(work.total("flops")))
    for p in points:
        assert (p.bound == "compute") == (p.intensity_flops_per_byte > p.ridge_flops_per_byte)
        assert p.floor_s > 0


def test_reading_memory_costs_far_more_than_multiplying() -> None:
    energy = catalog().energy
    assert flops_per_byte_read(energy, "dram") > 200
    assert flops_per_byte_read(energy, "hbm2") > 40
    assert flops_per_byte_read(energy, "sram_8kib") < 2
    shape = model(L8)
    work = step_work(shape, decode(spans(shape), 1, 1))
    assert work.memory_bytes > 20 * work.total("flops") / flops_per_byte_read(energy, "hbm2")
