"""Decoding over batch and context, its turning points, memory, speculation."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.arithmetic.formats import precision
from headway.arithmetic.parallelism import Parallelism, weight_bytes_per_chip
from headway.arithmetic.parameters import parameters
from headway.arithmetic.shape import ShapeError
from headway.planner.crossing import first_crossing
from headway.planner.decoding import decode_report
from headway.planner.energy import energy_report
from headway.planner.limits import limits_report
from headway.planner.memory import memory_report
from headway.planner.speculation import speculation_report, tokens_per_step
from headway.planner.step import roofline_report
from tests.arithmetic.models import all_names, catalog, model
from tests.planner.deployments import deployed


@given(st.integers(1, 10_000_000), st.integers(1, 10_000_000))
def test_a_crossing_is_found_exactly(threshold: int, most: int) -> None:
    found = first_crossing(lambda n: np.asarray(n >= threshold), most)
    assert found == (threshold if threshold <= most else None)


def test_decode_points_are_those_of_the_roofline() -> None:
    where = deployed(fitted=True)
    report = decode_report(where, [1, 32], [1024, 8192])
    for point in report.points:
        one = roofline_report(where, point.context_tokens, point.batch)
        assert point.step_s == pytest.approx(one.decode.step_s)
        assert point.bound == one.decode.bound
        assert point.fits == one.fits
        assert point.tokens_per_s_per_chip == pytest.approx(one.decode.tokens_per_s_per_chip)
        assert one.decode.calibrated is not None
        assert point.engine_step_s == pytest.approx(one.decode.calibrated.step_s)


@pytest.mark.parametrize("cut", [{"tensor": 8}, {"tensor": 2, "pipeline": 4}, {"data": 8}])
def test_longer_and_fuller_steps_never_take_less(cut: dict[str, int]) -> None:
    points = decode_report(deployed(**cut), [8, 16, 64], [1024, 8192, 65_536]).points
    by_place = {(p.batch, p.context_tokens): p.step_s for p in points}
    for (batch, context), step_s in by_place.items():
        assert all(step_s <= other for (b, c), other in by_place.items() if b >= batch and c >= context)


def test_what_does_not_fit_is_bound_by_capacity() -> None:
    point = decode_report(deployed(), [512], [131_072]).points[0]
    assert (point.bound, point.fits) == ("memory_capacity", False)


def test_where_weights_stop_mattering() -> None:
    for name, batch in (("llama-3.1-70b", 296), ("llama-3.1-8b", 296)):
        report = limits_report(deployed(name, weights="bf16"), 1, 1024)
        assert report.weights_stop_mattering_batch == pytest.approx(batch, rel=0.03)
        assert report.weights_stop_mattering_batch_rule == pytest.approx(295.3, rel=0.005)
    sparse = limits_report(deployed("deepseek-v3", "hgx-b200"), 1, 1024)
    assert sparse.weights_stop_mattering_batch == pytest.approx(sparse.weights_stop_mattering_batch_rule, rel=0.2)
    assert sparse.weights_stop_mattering_batch_rule > 4000


def test_the_rule_reads_and_multiplies_experts_in_their_own_format() -> None:
    where = replace(deployed("gpt-oss-120b", "hgx-b200", tensor=1), precision=precision("bf16", "bf16", "mxfp4"))
    counted, chip = parameters(where.model), where.system.chip
    assert chip.fp4_flops_per_s is not None
    assert chip.bf16_flops_per_s is not None
    read_s = (counted.always * 2 + counted.experts * 4.25 / 8) / chip.hbm_bytes_per_s
    token_s = 2 * (counted.always / chip.bf16_flops_per_s + counted.active_experts / chip.fp4_flops_per_s)
    report = limits_report(where, 32, 8192)
    assert report.weights_stop_mattering_batch_rule == pytest.approx(read_s / token_s)
    assert report.weights_stop_mattering_batch == pytest.approx(report.weights_stop_mattering_batch_rule, rel=0.25)


@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v3", "gpt-oss-120b"])
def test_turning_points_turn(name: str) -> None:
    where = deployed(name, "hgx-b200")
    report = limits_report(where, 64, 4096)
    at = report.kv_overtakes_weights_tokens
    assert at is not None

    def kv_over_weights(context: int) -> bool:
        work = where.work(where.decode_shape(64, context))
        return bool(work.total("kv_read_bytes") >= work.total("weight_bytes"))

    assert kv_over_weights(at)
    assert not kv_over_weights(at - 1)
    assert report.latency_floor_s < float(where.floor(where.decode_shape(1, 4096)).step_s)
    assert report.latency_floor_tokens_per_s == pytest.approx(1 / report.latency_floor_s)


def test_where_compute_overtakes_memory_and_memory_compute() -> None:
    short = limits_report(deployed("llama-3.1-70b"), 1024, 16)
    assert short.compute_overtakes_memory_batch is not None
    assert short.memory_overtakes_compute_tokens is not None
    assert short.memory_overtakes_compute_tokens > 16
    assert limits_report(deployed("llama-3.1-70b"), 1, 8192).compute_overtakes_memory_batch is None


def test_heads_that_share_a_latent_are_bound_by_arithmetic_in_long_contexts() -> None:
    """128 heads multiply 2 x (2 x 512 + 64) for each of 576 bytes: 484 FLOPs a byte, beyond the ridge of 206."""
    where = deployed("deepseek-v3", "hgx-h200", data=8, expert=8)
    narrow = replace(where, precision=precision("fp8", "fp8"))
    at = limits_report(narrow, 256, 8192).compute_overtakes_memory_tokens
    assert at is not None
    costs = [narrow.floor(narrow.decode_shape(256, context)) for context in (1, at - 1, at)]
    assert [cost.bound[0] for cost in costs] == ["memory_bandwidth", "memory_bandwidth", "compute"]
    assert limits_report(deployed("llama-3.1-70b"), 1024, 16).compute_overtakes_memory_tokens is None


@pytest.mark.parametrize("name", all_names())
def test_memory_adds_up(name: str) -> None:
    where = deployed(name, "gb200-nvl72", tensor=1, data=4)
    report = memory_report(where, 4096, 8)
    assert sum(report.weight_bytes_by_part.values()) == pytest.approx(report.weight_bytes)
    assert report.weight_bytes == weight_bytes_per_chip(model(name), precision("fp8"), where.cut)
    filled = report.weight_bytes + report.kv_bytes + report.kept_free_bytes + report.unused_bytes
    assert filled == pytest.approx(report.memory_bytes)
    assert report.fits == (report.unused_bytes >= 0)


@given(st.floats(0, 1), st.integers(0, 16))
def test_tokens_of_a_step_are_a_geometric_sum(acceptance: float, drafts: int) -> None:
    got = tokens_per_step(acceptance, drafts)
    assert 1 <= got <= drafts + 1
    if acceptance < 0.99:
        assert got == pytest.approx((1 - acceptance ** (drafts + 1)) / (1 - acceptance))


def test_the_best_depth() -> None:
    where = deployed("llama-3.1-70b")
    never = speculation_report(where, [1], 2048, 0.0, 0.0, 8).loads[0]
    assert (never.best_drafts, never.speed_up) == (0, 1.0)
    always = speculation_report(where, [1], 2048, 1.0, 0.0, 8).loads[0]
    assert always.best_drafts == 8
    assert 8 < always.speed_up <= 9
    assert [load.fits for load in speculation_report(where, [1, 100_000], 2048, 0.7, 0.0, 1).loads] == [True, False]
    loads = speculation_report(where, [1, 16, 64, 256], 2048, 0.7, 0.02, 8).loads
    assert [load.best_drafts for load in loads] == sorted((load.best_drafts for load in loads), reverse=True)
    assert loads[0].best_drafts > loads[-1].best_drafts
    for load in loads:
        assert load.speed_up == max(depth.speed_up for depth in load.depths) >= 1


def test_a_pipeline_gives_the_same_tokens_to_each_user_as_its_pass_allows() -> None:
    piped = deployed("llama-3.1-70b", tensor=2, pipeline=4)
    flat = deployed("llama-3.1-70b", tensor=2)
    assert float(piped.decode_s(64, 1024)) == pytest.approx(float(flat.decode_s(16, 1024)), rel=0.05)


def test_cuts_that_do_not_divide_are_refused() -> None:
    for tensor, name in itertools.product((3, 5, 128), ("llama-3.1-70b", "qwen3-8b")):
        with pytest.raises(ShapeError, match="possible: 1, 2"):
            Parallelism(tensor=tensor).check(model(name))


def test_joules() -> None:
    where = deployed()
    report = energy_report(where, catalog().energy, 32, 4096)
    decode, prefill = report.steps
    assert decode.energy_j == pytest.approx(decode.step_s * 8 * 700)
    assert decode.energy_j_per_token == pytest.approx(decode.step_s * 8 * 700 / 32)
    assert report.flops_per_byte_read == pytest.approx(8 * 3.92 / 0.75)
    # A decode step spends on reading, a prompt on multiplying.
    assert prefill.reading_share < 0.1 < decode.reading_share
    # Eight fp8 peaks and bandwidths together, at 0.75 pJ a FLOP and 31.36 a byte, would draw more than 700 W a chip.
    byte_j = 31.36e-12 * 700 / (0.75e-12 * 1979e12 + 31.36e-12 * 3.35e12)
    read = decode.reading_j / byte_j
    assert read == pytest.approx(8 * float(where.work(where.decode_shape(32, 4096)).memory_bytes), rel=1e-3)
    lpddr = energy_report(deployed("qwen3-8b", "m3-ultra-node", tensor=1), catalog().energy, 1, 128)
    assert lpddr.memory == "dram"


def test_no_figure_for_reading_main_memory_in_sram_is_made_up() -> None:
    where = deployed("qwen3-8b", "cs-3", weights="bf16", tensor=1)
    report = energy_report(where, catalog().energy, 1, 128)
    assert (report.memory, report.flops_per_byte_read) == ("sram", None)
    assert {(step.reading_j, step.reading_share) for step in report.steps} == {(None, None)}
    flops = float(where.work(where.decode_shape(1, 128)).total("flops"))
    assert report.steps[0].multiplying_j == pytest.approx(flops * 0.75e-12)
    assert "joules to read a byte of wse-3's main memory, SRAM: none are published" in report.uncertain
    assert not [line for line in report.uncertain if line.startswith("dram")]


@pytest.mark.parametrize("batch", [1, 5, 32])
@pytest.mark.parametrize("cut", [{"tensor": 8}, {"tensor": 2, "pipeline": 4}, {"tensor": 2, "data": 4}])
@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
@pytest.mark.parametrize("system", ["hgx-h100", "hgx-b200", "mi355x-node", "tpu7x-node"])
def test_nothing_takes_more_joules_than_full_power_gives(
    system: str, weights: str, cut: dict[str, int], batch: int
) -> None:
    for step in energy_report(deployed(system=system, weights=weights, **cut), catalog().energy, batch, 8192).steps:
        assert step.energy_j is not None
        assert step.reading_j is not None
        assert step.reading_j + step.multiplying_j <= step.energy_j * (1 + 1e-9)


def test_each_pass_of_a_pipeline_reads_the_weights() -> None:
    """Five sequences in four stages are three passes: two, two and one."""
    piped, flat = (deployed(tensor=2, **cut) for cut in ({"pipeline": 4}, {}))
    five = energy_report(piped, catalog().energy, 5, 4096).steps[0]
    one, two = (energy_report(flat, catalog().energy, batch, 4096).steps[0] for batch in (1, 2))
    assert five.reading_j == pytest.approx(2 * two.reading_j + one.reading_j)
    assert five.multiplying_j == pytest.approx(2 * two.multiplying_j + one.multiplying_j)


def test_a_shared_start_is_read_and_kept_once() -> None:
    """32 x 40,000 tokens of Llama 3.1 8B, 30,000 of them in common: 131,072 bytes a token."""
    where = deployed("llama-3.1-8b", "hgx-h200", weights="bf16", tensor=1)
    (alone,) = decode_report(where, [32], [40_000]).points
    (shared,) = decode_report(where, [32], [40_000], 30_000).points
    assert alone.step_s - shared.step_s == pytest.approx(31 * 30_000 * 131_072 / 4.8e12)
    assert (alone.fits, shared.fits) == (False, True)
    assert decode_report(where, [32], [40_000], 30_000).would_fit == "all fit"
    with pytest.raises(ShapeError, match=r"--shared 40,000 must be less than each --context, and 40,000 is not more"):
        decode_report(where, [32], [40_000, 50_000], 40_000)
