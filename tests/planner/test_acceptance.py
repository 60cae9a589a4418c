"""Public claims about LLM inference (tests/data/facts/acceptance.csv), each computed by the library's own functions."""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from headway.arithmetic.attends import spans
from headway.arithmetic.cache import kv_bytes, kv_bytes_per_token
from headway.arithmetic.experts import FloatArray, experts_touched
from headway.arithmetic.formats import FORMATS, Format, Precision, precision
from headway.arithmetic.parallelism import Parallelism, weight_bytes
from headway.arithmetic.parameters import parameters, params_touched
from headway.arithmetic.spans import Ints
from headway.arithmetic.step_shape import decode
from headway.arithmetic.work import step_work
from headway.catalog import Chip, load_catalog
from headway.planner.batching import critical_batch, model_critical_batch, throughput_tokens_per_s
from headway.planner.caching import hit_rate
from headway.planner.deployment import Deployment
from headway.planner.economics import growth_gap, implied_kv_bytes_per_token, price_multiplier, spend_shares
from headway.planner.fleet import lifetime_tokens, served_over_optimal_training, share_of_traffic, transceiver_w
from headway.planner.kv import kv_report
from headway.planner.prefix import prefix_report
from headway.planner.price import Workload
from headway.planner.receipt import decode_energy_j, energy_receipt, prefill_energy_j
from headway.planner.request import request_receipt
from headway.roofline import floor_cost
from headway.roofline.capacity import length_where_kv_reaches
from tests.arithmetic.models import catalog, model

FACTS = Path(__file__).parents[1] / "data/facts"
CLAIMS = [row["id"] for row in csv.DictReader((FACTS / "acceptance.csv").read_text().splitlines())]
GIB, MIB = 2**30, 2**20
L70, L405, V3 = "llama-3.1-70b", "llama-3.1-405b", "deepseek-v3"


def chip(name: str) -> Chip:
    return catalog().chip(name)


@pytest.fixture(scope="module")
def claimed_chip(tmp_path_factory: pytest.TempPathFactory) -> Chip:
    """20 TB/s, 2 PFLOP/s in fp8, 1.5 kW: the chip that the claims about energy assume, as a user would add it."""
    directory = tmp_path_factory.mktemp("catalog")
    facts = [
        ("vendor", "claim", "text"),
        ("kind", "gpu", "text"),
        ("hbm_type", "HBM4", "text"),
        ("hbm_bytes", "288", "GB"),
        ("hbm_bytes_per_s", "20", "TB/s"),
        ("fp8_flops_per_s", "2", "PFLOP/s"),
        ("bf16_flops_per_s", "1", "PFLOP/s"),
        ("tdp_w", "1.5", "kW"),
    ]
    lines = [f"claimed,{figure},{value},{unit},rumour,a claim in a talk,2026," for figure, value, unit in facts]
    (directory / "chips.csv").write_text("\n".join(["item,figure,value,unit,status,source,date,note", *lines]))
    return load_catalog([directory]).chip("claimed")


def test_every_claim_has_its_test() -> None:
    tested = {name.removeprefix("test_").split("_")[0].lower() for name in globals() if name.startswith("test_a")}
    wanted = {claim.lower().replace("-", "") for claim in CLAIMS}
    assert len(CLAIMS) == 34
    assert tested == wanted


def test_a01_kv_bytes_of_a_token() -> None:
    assert kv_bytes_per_token(model(L70), Precision()) == 327_680 == 320 * 2**10


def test_a02_kv_of_a_128k_context() -> None:
    assert kv_bytes(model(L70), 131_072, Precision()) == 40 * GIB


def test_a03_context_where_kv_equals_weights() -> None:
    weights = weight_bytes(model(L70), Precision())
    assert weights == pytest.approx(141.11e9, rel=1e-4)
    assert length_where_kv_reaches(model(L70), weights, Precision()) == pytest.approx(430_626, rel=0.002)


def test_a04_kv_of_a_large_batch() -> None:
    assert 512 * kv_bytes(model(L70), 131_072, Precision()) == pytest.approx(22e12, rel=0.01)


def test_a05_chips_for_kv_with_and_without_weights() -> None:
    bf16 = kv_report(L405, model(L405), Precision(), chip("h100-sxm"), 131_072, 32)
    assert bf16.chips_for_kv == pytest.approx(27.06, abs=0.005)
    assert bf16.whole_chips_for_kv == 28
    assert bf16.chips_for_kv_and_weights == pytest.approx(37.2, abs=0.05)
    assert kv_report(L405, model(L405), Precision(), chip("h100-sxm"), 128_000, 32).chips_for_kv == pytest.approx(
        26.42, abs=0.005
    )
    fp8 = kv_report(L405, model(L405), precision("fp8"), chip("h100-sxm"), 131_072, 32)
    assert fp8.chips_for_kv_and_weights == pytest.approx(32.1, abs=0.1)  # Embedding and head stay in bf16.
    assert any("weight" in a or "whole memory" in a for a in bf16.assumptions)


def test_a06_ridge_and_critical_batch_of_h100() -> None:
    h100 = chip("h100-sxm")
    assert h100.ridge("bf16") == pytest.approx(295.3, rel=0.005)
    assert h100.ridge("fp8") == pytest.approx(590.7, rel=0.005)
    assert critical_batch(h100, "fp8", FORMATS["fp8"]) == pytest.approx(295, rel=0.005)
    assert critical_batch(h100, "bf16", FORMATS["bf16"]) == pytest.approx(295, rel=0.005)


def test_a07a_weight_pass(claimed_chip: Chip) -> None:
    assert claimed_chip.read_s(40e9) == pytest.approx(2e-3, rel=1e-12)


def _decode_j(size_bytes: float, chip: Chip, batch: float) -> float:
    assert chip.tdp_w is not None
    return decode_energy_j(size_bytes, chip.hbm_bytes_per_s, chip.tdp_w, batch, 500)


def test_a07b_decode_energy(claimed_chip: Chip) -> None:
    assert _decode_j(40e9, claimed_chip, 32) == pytest.approx(46.875, rel=0.01)


def test_a08_wall_energy_needs_the_prefill_term(claimed_chip: Chip) -> None:
    prefill_j = prefill_energy_j(40e9, 200, claimed_chip.flops_per_s("fp8"), 1500)
    receipt = energy_receipt(prefill_j, _decode_j(40e9, claimed_chip, 32), overhead=1.2 * 1.3)
    assert prefill_j == pytest.approx(12.0)
    assert receipt.decode_only_wall_wh == pytest.approx(0.0203, rel=0.005)
    assert receipt.wall_wh == pytest.approx(0.026, rel=0.03)
    assert any("prefill" in assumption for assumption in receipt.assumptions)


def test_a08b_a_real_moe_reads_the_union_of_experts(claimed_chip: Chip) -> None:
    for batch, size_gb, joules in ((1, 38, 1408), (32, 434, 509), (256, 671, 98), (2048, 671, 12)):
        size = float(params_touched(model(V3), float(batch)))  # A byte a weight.
        assert size / 1e9 == pytest.approx(size_gb, abs=0.6)
        assert _decode_j(size, claimed_chip, batch) == pytest.approx(joules, rel=0.005, abs=0.5)


@pytest.mark.parametrize(("batch", "joules"), [(32, 509), (256, 98)])
def test_a08b_the_receipt_of_a_request_reads_the_union_of_experts(
    claimed_chip: Chip, batch: int, joules: float
) -> None:
    """With what the claim leaves out: the head in bf16, a short cache."""
    four = replace(catalog().system("hgx-b200"), chip=claimed_chip)
    where = Deployment(V3, model(V3), four, precision("fp8", "fp8"), Parallelism(tensor=4))
    receipt = request_receipt(where, Workload(prompt=1, cached=0, output=501, batch=batch), overhead=1.2 * 1.3)
    assert receipt.floor.decode_j == pytest.approx(joules, rel=0.03)
    assert receipt.floor.energy_j == pytest.approx((receipt.floor.decode_j or 0) + (receipt.floor.prefill_j or 0))
    assert receipt.floor.wall_wh == pytest.approx((receipt.floor.energy_j or 0) * 1.56 / 3600)


def test_a09_latent_attention_against_grouped() -> None:
    v3, bf16 = model(V3), Precision()
    assert kv_bytes_per_token(model(L70), bf16) == 0.3125 * MIB
    assert kv_bytes_per_token(v3, bf16) == 70_272 == pytest.approx(0.0670 * MIB, rel=0.01)
    attention = v3.layers[0].attention
    per_head = attention.head_dim + attention.value_dim
    as_mha = len(v3.layers) * attention.num_heads * per_head * 2
    assert as_mha / MIB == pytest.approx(4.77, abs=0.01)
    assert as_mha / kv_bytes_per_token(v3, bf16) == pytest.approx(71, abs=0.2)


def test_a10_critical_batch_is_300_times_sparsity() -> None:
    fp8, fp4 = FORMATS["fp8"], Format("fp4", 4)
    for name, rate, fmt, batch in (
        ("h100-sxm", "bf16", FORMATS["bf16"], 295),
        ("h200-sxm", "bf16", FORMATS["bf16"], 206),
        ("b200-sxm", "fp8", fp8, 281),
        ("gb200", "fp8", fp8, 312),
        ("mi355x", "fp8", fp8, 314),
        ("tpu7x", "fp8", fp8, 313),
        ("vr200", "fp4", fp4, 398),
    ):
        assert critical_batch(chip(name), rate, fmt) == pytest.approx(batch, abs=1)  # type: ignore[arg-type]
        assert critical_batch(chip(name), rate, fmt) == pytest.approx(300, rel=0.35)  # type: ignore[arg-type]
    assert critical_batch(chip("lp30"), "fp8", fp8) == pytest.approx(4.1, abs=0.05)
    counted = parameters(model(V3))
    assert counted.sparsity == pytest.approx(17.9, abs=0.05)
    assert model_critical_batch(chip("h100-sxm"), precision(), counted) == pytest.approx(5.3e3, rel=0.01)


def test_a11_drain_time() -> None:
    for name, milliseconds in (("h100-sxm", 23.9), ("h200-sxm", 29.4), ("b200-sxm", 22.5), ("vr200", 13.1)):
        assert chip(name).drain_s * 1e3 == pytest.approx(milliseconds, abs=0.05)
    assert chip("mi355x").drain_s * 1e3 == pytest.approx(36.0)
    assert chip("mi455x").drain_s * 1e3 == pytest.approx(22.0, abs=0.05)
    assert chip("lp30").drain_s * 1e6 == pytest.approx(3.3, abs=0.05)
    for name in ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200", "vr200", "mi355x", "mi455x"):
        assert 13e-3 <= chip(name).drain_s <= 36.1e-3


def test_a12_one_rack() -> None:
    for batch, step_s in ((2000, 1 / 64), (2560, 1 / 50), (2400, 1 / 50), (2000, 15.6e-3)):
        assert throughput_tokens_per_s(batch, step_s) == pytest.approx(128e3, rel=0.07)


def test_a13_transceivers() -> None:
    assert transceiver_w(1e6, 6, 30) == 180e6
    assert transceiver_w(1e6, 655 / 128, 30) == pytest.approx(154e6, rel=0.005)


def _scaleup_over_scaleout(name: str) -> float:
    system = catalog().system(name)
    assert system.scaleup is not None
    assert system.scaleout is not None
    return system.scaleup.bytes_per_s / system.scaleout.bytes_per_s


def test_a14_scale_up_over_scale_out_counts_one_direction_on_both_sides() -> None:
    assert _scaleup_over_scaleout("hgx-b200") == 18
    assert _scaleup_over_scaleout("gb300-nvl72") == 9
    assert _scaleup_over_scaleout("vr200-nvl72") == 9


def test_a15_ridge_of_an_sram_chip() -> None:
    assert chip("lp30").ridge("fp8") == pytest.approx(8, rel=0.03)


def _bandwidth_ratio(used: float = 1.0, bertha_used: float = 1.0) -> float:
    return chip("h100-sxm").hbm_bytes_per_s * used / (chip("bertha-500").hbm_bytes_per_s * bertha_used)


def test_a16_h100_over_an_lpddr_chip() -> None:
    assert _bandwidth_ratio() == pytest.approx(6.1, rel=0.01)


@pytest.mark.parametrize(("cached_ratio", "share"), [(0.10, 0.85), (0.05, 0.73), (0.025, 0.58)])
def test_a17_spend_on_cached_prefixes_from_the_medians(cached_ratio: float, share: float) -> None:
    """The medians alone say more than whole sessions do, or less, by the price of a cached token."""
    price = catalog().price("claude-sonnet-4-5")
    assert price.cache_write_usd_per_mtok is not None
    write = price.cache_write_usd_per_mtok / price.input_usd_per_mtok
    shares = spend_shares(119e3, 875, 214, cached_ratio, price.output_over_input, write)
    assert shares.cached == pytest.approx(share, abs=0.01)


@dataclass(frozen=True, slots=True)
class Calls:
    """Of a trace, [calls]; `idle_s` is NaN at a session's first."""

    idle_s: FloatArray
    reused: Ints
    new: Ints
    output: Ints


@pytest.fixture(scope="module")
def calls() -> Calls:
    with gzip.open(FACTS.parent / "agent_calls/calls.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    counts = (np.array([int(row[key]) for row in rows]) for key in ("reused_tokens", "new_tokens", "output_tokens"))
    return Calls(np.array([float(row["idle_s"] or "nan") for row in rows]), *counts)


def test_a17_spend_on_cached_prefixes_over_whole_sessions(calls: Calls) -> None:
    """59.5, 29.2 and 11.2% were published of other sessions, at the same ratios of prices."""
    price = catalog().price("claude-opus-4-5")
    assert price.cached_over_input is not None
    assert price.cache_write_usd_per_mtok is not None
    write = price.cache_write_usd_per_mtok / price.input_usd_per_mtok
    totals = (float(tokens.sum()) for tokens in (calls.reused, calls.new, calls.output))
    shares = spend_shares(*totals, price.cached_over_input, price.output_over_input, write)
    assert (shares.cached, shares.new, shares.output) == pytest.approx((0.595, 0.292, 0.112), abs=0.02)


def test_a17b_hit_rate_by_time_to_live(calls: Calls) -> None:
    for ttl_s, share in ((60, 0.814), (300, 0.941), (3600, 0.996)):
        assert hit_rate(calls.idle_s, calls.reused, ttl_s) == pytest.approx(share, abs=0.02)
    assert len(calls.idle_s) == 22_739
    assert calls.reused.sum() / (calls.reused + calls.new).sum() == pytest.approx(0.962, abs=0.005)


def test_a18_hold_a_prefix_or_compute_it_again() -> None:
    """The claim multiplies the embedding and every position's logits as well: 1.4% more."""
    eight = Deployment(L70, model(L70), catalog().system("hgx-h100"), Precision(), Parallelism(tensor=8), mfu=0.5)
    kept = prefix_report(eight, catalog().tiers, 119_000, 1.30, life_years=4)
    assert kept.recompute_s == pytest.approx(8.93, rel=0.015)
    assert kept.recompute_usd == pytest.approx(0.0258, rel=0.015)
    assert kept.kv_bytes == pytest.approx(39.0e9, rel=0.001)
    held = next(choice for choice in kept.tiers if choice.tier == "hbm")
    assert held.hold_usd_per_hour == pytest.approx(0.63, abs=0.005)
    assert held.pays_for_s == pytest.approx(147, rel=0.02)
    dearer = prefix_report(eight, catalog().tiers, 119_000, 13.0, life_years=4)
    assert next(choice for choice in dearer.tiers if choice.tier == "hbm").pays_for_s == pytest.approx(held.pays_for_s)


RIDGE_FLOPS_PER_BYTE = 600.0
"""300 multiply-adds, of 2 FLOPs, for a byte: fp8 on HBM chips."""


def test_a19200k_kv_implied_by_a_price_step_at_200k() -> None:
    price = catalog().price("gemini-2.5-pro")
    assert price.step_threshold_tokens == 200_000
    implied = implied_kv_bytes_per_token(100e9, price.step_threshold_tokens, RIDGE_FLOPS_PER_BYTE)
    assert implied == pytest.approx(1667, rel=0.001)
    assert implied == pytest.approx(2000, rel=0.2)
    assert kv_bytes_per_token(model(V3), Precision()) / implied == pytest.approx(42, abs=0.5)


def test_a19272k_kv_implied_by_a_price_step_at_272k() -> None:
    price = catalog().price("gpt-6-sol")
    assert price.step_threshold_tokens == 272_000
    implied = implied_kv_bytes_per_token(100e9, price.step_threshold_tokens, RIDGE_FLOPS_PER_BYTE)
    assert implied == pytest.approx(1225, rel=0.001)


def test_a20_tokens_over_a_life() -> None:
    served = lifetime_tokens(50e6, days=60)
    assert served == pytest.approx(2.59e14, rel=0.001)
    assert served == pytest.approx(2e14, rel=0.4)
    assert served_over_optimal_training(served, 100e9) == pytest.approx(130, rel=0.01)


def test_a21_experts_touched() -> None:
    touched = experts_touched(256, 8, np.array([1, 8, 32, 64, 128, 256]))
    assert np.rint(touched).tolist() == [8, 57, 163, 222, 252, 256]


def test_a22_fast_mode() -> None:
    """Both costs are read off a published frontier; only their ratio is computed."""
    assert price_multiplier(4.0, 0.56) == pytest.approx(7.1, abs=0.05)
    assert 6 <= price_multiplier(4.0, 0.56) <= 12


def test_a23_attention_and_feed_forward_shares() -> None:
    counted = parameters(model(L70))
    shares = [n / counted.total * 100 for n in (counted.attention, counted.feed_forward)]
    assert shares == pytest.approx([17.1, 79.9], abs=0.05)
    assert shares == pytest.approx([20, 80], abs=3)
    assert (counted.embedding + counted.head) / counted.total * 100 == pytest.approx(3.0, abs=0.05)


def test_a24_effective_bandwidth_gap() -> None:
    assert _bandwidth_ratio(0.5, 0.9) == pytest.approx(3.4, abs=0.02)
    assert _bandwidth_ratio(0.7, 0.9) == pytest.approx(4.8, abs=0.05)


def test_a25_output_over_input() -> None:
    ratios = {name: price.output_over_input for name, price in catalog().prices.items()}
    for name in ("gpt-5.4", "gpt-6-sol", "claude-opus-5", "gemini-4-argon", "gemini-3.1-pro-preview", "kimi-k3"):
        assert 5 <= ratios[name] <= 6
    assert ratios["gpt-5"] == ratios["gemini-2.5-pro"] == 8
    for name in ("deepseek-v4-pro", "grok-4.20", "mistral-large-4", "glm-5.3", "qwen3.7-max"):
        assert ratios[name] < 5


def test_a26_cache_read_over_input() -> None:
    prices = catalog().prices
    for name in ("gpt-5.5", "claude-opus-4-8", "gemini-3.5-flash", "kimi-k3"):
        assert prices[name].cached_over_input == pytest.approx(0.10)
    for name in ("claude-opus-5-5", "claude-sonnet-5-5", "gpt-6.1-sol", "gemini-4-argon"):
        assert prices[name].cached_over_input == pytest.approx(0.05)
    assert prices["claude-fable-5-1"].cached_over_input == pytest.approx(0.025)
    assert prices["deepseek-v4-flash"].cached_over_input == pytest.approx(0.02)


def test_a27_price_step() -> None:
    prices = catalog().prices
    for name, tokens, ratios in (
        ("gemini-3.1-pro-preview", 200_000, (2.0, 1.5)),
        ("gpt-5.4", 272_000, (2.0, 1.5)),
        ("grok-4.5", 200_000, (2.0, 2.0)),
        ("MiniMax-M3", 512_000, (2.0, 2.0)),
    ):
        price = prices[name]
        assert price.step_threshold_tokens == tokens
        assert (price.step_over_input, price.step_over_output) == pytest.approx(ratios)
    assert prices["claude-opus-5-5"].step_threshold_tokens is None
    assert prices["gemini-4-argon"].step_threshold_tokens is None


def test_a28_share_of_the_worlds_traffic() -> None:
    assert 0.5e-3 <= share_of_traffic(128e3, 1.28e8) <= 2e-3


def test_a29_growth_gap() -> None:
    assert growth_gap(10, 3) == pytest.approx(10 / 3)


@pytest.mark.parametrize(
    ("name", "chip_name", "chips", "batch", "weights", "measured_j"),
    [
        ("llama-3.1-8b", "hgx-h100", 1, 64, "bf16", 0.119),
        ("llama-3.1-70b", "hgx-h100", 4, 64, "bf16", 0.797),
        ("llama-3.1-70b", "hgx-h100", 4, 255, "bf16", 0.479),
        ("gpt-oss-120b", "hgx-h100", 1, 64, "mxfp4", 0.268),
        ("qwen3-235b-a22b", "hgx-h100", 4, 32, "fp8", 3.01),
        ("deepseek-v3", "hgx-b200", 8, 64, "fp8", 3.86),
    ],
)
def test_a30_measured_joules_stand_above_the_floor(
    name: str, chip_name: str, chips: int, batch: int, weights: str, measured_j: float
) -> None:
    """Floor: the roofline's step at full power, 1,000 tokens of context; measured: GPUs only."""
    shape, system = model(name), catalog().system(chip_name)
    cut = Parallelism(tensor=chips)
    work = step_work(shape, decode(spans(shape), batch, 1000), precision(weights), cut)
    cost = floor_cost(work, system, chips)
    assert system.chip.tdp_w is not None
    floor_j = float(cost.energy_at_power_j(system.chip.tdp_w)) / batch
    assert math.isfinite(floor_j)
    assert 1 < measured_j / floor_j < 4
