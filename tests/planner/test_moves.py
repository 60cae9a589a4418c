"""What moves: prefixes, weights, one request; pools of chips."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.parallelism import weight_bytes_per_chip
from headway.arithmetic.shape import ShapeError
from headway.catalog import CatalogError
from headway.catalog.reach import reaches
from headway.planner.afd import afd_report
from headway.planner.disaggregation import disaggregation_report
from headway.planner.journey import journey_report, round_trip_s
from headway.planner.loading import load_report
from headway.planner.prefix import prefix_report
from headway.planner.price import Workload
from headway.roofline import Coefficients, calibrated_cost
from tests.arithmetic.models import catalog
from tests.planner.deployments import deployed


def test_a_tier_is_read_over_the_systems_own_link() -> None:
    h100 = {r.name: r for r in reaches(catalog().system("hgx-h100"), catalog().tiers, 1.3, 4)}
    rubin = {r.name: r for r in reaches(catalog().system("vr200-nvl72"), catalog().tiers, None, 4)}
    assert (h100["dram"].read_bytes_per_s, rubin["dram"].read_bytes_per_s) == (64e9, 900e9)
    assert (h100["remote"].read_bytes_per_s, rubin["remote"].read_bytes_per_s) == (50e9, 200e9)
    assert h100["sram"].read_bytes_per_s == 50e9  # That of other chips, over the network.
    assert h100["hbm"].own
    assert h100["hbm"].usd_per_byte_hour == pytest.approx(1.3 / 80e9)
    assert rubin["hbm"].usd_per_byte_hour is None
    groq = {r.name: r for r in reaches(catalog().system("lpx-256"), catalog().tiers, None, 4)}
    assert groq["sram"].own
    assert groq["sram"].read_bytes_per_s == 150e12


@pytest.mark.parametrize("tokens", [1, 1000, 100_000])
def test_a_prefix(tokens: int) -> None:
    where = deployed(mfu=0.5)
    report = prefix_report(where, catalog().tiers, tokens, 1.3, 4)
    assert report.recompute_s == pytest.approx(2 * deployed().prefill_s(tokens))
    assert report.kv_bytes == kv_bytes(where.model, tokens, where.precision) == 8 * report.kv_bytes_per_chip
    for choice in report.tiers:
        assert choice.load_over_recompute == pytest.approx(choice.load_s / report.recompute_s)
        if choice.pays_for_s is not None:
            assert choice.hold_usd_per_hour is not None
            assert report.recompute_usd is not None
            assert choice.pays_for_s / 3600 * choice.hold_usd_per_hour == pytest.approx(report.recompute_usd)


def test_whether_a_short_prefix_is_worth_fetching_depends_on_the_model() -> None:
    report = prefix_report(deployed("llama-3.1-8b", tensor=1), catalog().tiers, 1, 1.3, 4)
    remote = next(choice for choice in report.tiers if choice.tier == "remote")
    assert remote.load_over_recompute < 1  # Even one token reads every weight.
    tiny = deployed("smollm2-135m", tensor=1, weights="bf16")
    assert "compute again" in prefix_report(tiny, catalog().tiers, 16, 1.3, 4).best


@pytest.mark.parametrize(
    ("name", "cut", "copies"),
    [
        ("deepseek-v3", {"tensor": 8}, 8),  # A latent is on every chip.
        ("deepseek-v3", {"tensor": 4, "data": 2}, 4),  # A sequence is in one group.
        ("deepseek-v3", {"tensor": 2, "context": 4}, 2),
        ("deepseek-v3", {"tensor": 2, "pipeline": 3}, 2),
        ("llama-3.1-70b", {"tensor": 8}, 1),
        ("llama-3.1-70b", {"tensor": 16}, 2),  # Eight KV heads.
        ("llama-3.1-70b", {"tensor": 8, "pipeline": 3}, 1),
    ],
)
def test_every_copy_of_a_prefix_is_held_in_the_chips_own_memory(name: str, cut: dict[str, int], copies: int) -> None:
    where = deployed(name, "hgx-h200", mfu=0.7, **cut)
    report = prefix_report(where, catalog().tiers, 50_000, 1.6, 4)
    for choice in report.tiers:
        own = choice.tier in ("hbm", "hbf")
        assert choice.held_bytes == pytest.approx(report.kv_bytes * (copies if own else 1)), choice.tier
    hbm = next(choice for choice in report.tiers if choice.tier == "hbm")
    assert hbm.devices == pytest.approx(copies * report.kv_bytes / 141e9)
    assert hbm.hold_usd_per_hour == pytest.approx(copies * report.kv_bytes / 141e9 * 1.6)


def test_a_tier_is_recommended_that_the_system_has() -> None:
    h200 = prefix_report(deployed("deepseek-v3", "hgx-h200", mfu=0.7), catalog().tiers, 50_000, 1.6, 4)
    assert {choice.tier for choice in h200.tiers if not choice.in_system} == {"hbf", "sram"}
    assert h200.best == "load: dram is fastest; if it had them: hbf would take 2.22 ms"
    mac = prefix_report(deployed("llama-3.1-8b", "m3-ultra-node", tensor=1), catalog().tiers, 100_000, None, 4)
    assert {choice.tier for choice in mac.tiers if choice.in_system} == {"lpddr5", "ssd"}  # Its memory is the host's.
    assert mac.best.startswith("load: ssd is fastest; if it had them: sram would take")
    tiny = deployed("smollm2-135m", tensor=1, weights="bf16")
    few = prefix_report(tiny, catalog().tiers, 16, 1.3, 4)
    assert (
        few.best == "load: dram is fastest; from remote, ssd compute again; if it had them: sram would take 0.00837 ms"
    )
    slow = {name: catalog().tiers[name] for name in ("remote", "sram")}
    assert prefix_report(tiny, slow, 16, 1.3, 4).best == (
        "none: computing again is faster than every tier of this system; if it had them: sram would take 0.00837 ms"
    )


def test_weights_load_over_each_chips_link() -> None:
    where = deployed()
    report = load_report(where, catalog().tiers, 8, 1024)
    share = weight_bytes_per_chip(where.model, where.precision, where.cut)
    dram = next(tier for tier in report.tiers if tier.tier == "dram")
    assert dram.load_s == pytest.approx(10e-6 + share / 64e9)
    assert dram.keep_for_s == pytest.approx(dram.load_s / report.share_of_memory)
    assert "hbm" not in {tier.tier for tier in report.tiers}


def test_seoul_to_oregon() -> None:
    assert round_trip_s(8.4e6) == pytest.approx(0.137, rel=0.01)


@given(
    st.integers(1, 5000), st.integers(1, 60), st.floats(0, 0.99), st.integers(0, 3), st.sampled_from([0.0, 0.03, 0.137])
)
def test_a_journey_is_one_gapless_line(prompt: int, output: int, busy: float, handshakes: int, trip: float) -> None:
    report = journey_report(deployed(mfu=0.7), Workload(prompt, 0, output, 8), trip, busy, handshakes)
    clock = 0.0
    for stage in report.stages:
        assert stage.start_s == pytest.approx(clock)
        clock += stage.duration_s
    assert clock == pytest.approx(report.total_s)
    assert sum(stage.share for stage in report.stages) == pytest.approx(1)
    assert report.ttft_s + report.tpot_s * (output - 1) == pytest.approx(report.total_s)
    assert report.network_share * report.total_s == pytest.approx((1 + handshakes) * trip)


@pytest.mark.parametrize(
    ("cached", "output", "handshakes", "names"),
    [
        (99, 5, 1, ("1 handshake", "prompt: 1 token", "decode step 4")),
        (0, 6, 2, ("2 handshakes", "prompt: 100 tokens", "decode steps 4 to 5")),
    ],
)
def test_stages_are_named_by_what_is_in_them(
    cached: int, output: int, handshakes: int, names: tuple[str, str, str]
) -> None:
    stages = journey_report(deployed(), Workload(100, cached, output, 8), 0.1, 0.5, handshakes).stages
    assert (stages[0].name, stages[-2].name) == (names[0], names[2])
    assert names[1] in {stage.name for stage in stages}


def test_a_journey_says_what_cannot_be() -> None:
    with pytest.raises(ShapeError, match="utilisation must be at least 0 and below 1"):
        journey_report(deployed(), Workload(10, 0, 10, 1), 0.1, 1.0)
    with pytest.raises(ShapeError, match="cached tokens"):
        Workload(10, 10, 1, 1)


def _split(**work: int) -> Workload:
    return Workload(**{"prompt": 8192, "cached": 0, "output": 512, "batch": 32, **work})


def test_pools() -> None:
    where = deployed()
    report = disaggregation_report(where, where, _split(), [40.0, 150.0, 1e6])
    assert report.kv_bytes == kv_bytes(where.model, 8192, where.precision)
    assert report.transfer_s == pytest.approx(5e-6 + report.kv_bytes_per_chip / 50e9)
    assert report.transfer_seen_s < report.transfer_s / 20
    for point in report.points[:2]:
        assert point.split_batch is not None
        middle = 8192 + 256
        assert float(where.floor(where.decode_shape(point.split_batch, middle)).step_s) <= (
            1 / point.interactivity_tokens_per_s
        )
        assert point.split_tokens_per_s_per_chip is not None
        assert point.mixed_tokens_per_s_per_chip is not None
        assert point.in_turns_tokens_per_s_per_chip is not None
        # Hiding the prompts' arithmetic wholly is the best of the three, not hiding it at all the worst.
        assert point.in_turns_tokens_per_s_per_chip < point.split_tokens_per_s_per_chip
        assert point.in_turns_tokens_per_s_per_chip < point.mixed_tokens_per_s_per_chip
        assert point.pays == "against in turns"
    assert report.points[2].pays == "no"
    assert report.points[2].split_batch is None


def test_a_longer_prompt_needs_a_larger_prefill_pool_and_a_cached_one_a_smaller() -> None:
    where = deployed()

    def ratio(**work: int) -> float:
        found = disaggregation_report(where, where, _split(**work), [50.0]).points[0].prefill_chips_per_decode_chip
        assert found is not None
        return found

    assert ratio(prompt=16_384) > ratio() > ratio(cached=8000)
    assert ratio(output=256) > ratio()


def test_each_end_moves_its_own_share_over_its_own_link() -> None:
    """Eight A100 with 25 GB/s each keep up with two H100 with 50 GB/s."""
    slow, fast = deployed(system="hgx-a100"), deployed(tensor=2)
    report = disaggregation_report(slow, fast, _split(), [20.0])
    whole = kv_bytes(fast.model, 8192, fast.precision)
    assert report.kv_bytes_per_chip == whole / 2
    assert report.transfer_s == pytest.approx(5e-6 + max(whole / 8 / 25e9, whole / 2 / 50e9))


def test_a_transfer_that_takes_longer_than_the_prefill_is_seen() -> None:
    """Of a cached prompt little is computed and all is moved."""
    where = deployed()
    report = disaggregation_report(where, where, _split(prompt=100_000, cached=99_900), [50.0])
    assert report.transfer_s > report.prefill_s
    assert report.transfer_seen_s + report.prefill_s >= report.transfer_s
    assert report.transfer_seen_s < report.transfer_s


def test_one_token_leaves_nothing_to_decode() -> None:
    where = deployed()
    with pytest.raises(ShapeError, match="at least 2"):
        disaggregation_report(where, where, _split(output=1), [50.0])


def test_a_system_without_a_link_cannot_hand_over() -> None:
    lone = deployed("llama-3.1-8b", "m3-ultra-node", tensor=1)
    with pytest.raises(CatalogError, match="no scale-out link"):
        disaggregation_report(lone, lone, _split(prompt=100, output=10), [5.0])


def test_attention_and_feed_forward_apart() -> None:
    where = deployed("llama-3.1-70b", "hgx-b200")
    report = afd_report(where, catalog().system("lpx-256"), 8, 256, 64, 4096)
    layers = len(where.model.layers)
    for choice in report.choices:
        longest = max(choice.attention_s, choice.feed_forward_s) * choice.micro_batches
        assert choice.step_s >= longest
        assert choice.step_s >= choice.attention_s + choice.feed_forward_s + choice.hops_s - 1e-12
        assert choice.tokens_per_s == pytest.approx(64 / choice.step_s)
    assert report.choices[0].bound == "hops"
    assert report.step_s == min(choice.step_s for choice in report.choices)
    assert report.hop_bytes == 64 * where.model.hidden * 2
    hops = 2 * layers * (10e-6 + report.hop_bytes / min(8 * 50e9, 256 * 1250e9))
    assert report.choices[0].hops_s == pytest.approx(hops)
    assert report.interactivity_tokens_per_s == pytest.approx(1 / report.step_s)


def test_more_micro_batches_hide_hops_until_something_is_always_busy() -> None:
    where = deployed("llama-3.1-70b", "hgx-b200")
    choices = afd_report(where, catalog().system("hgx-h100"), 8, 8, 384, 8192).choices
    assert choices[1].step_s < choices[0].step_s
    assert {choice.bound for choice in choices} >= {"hops", "attention"}


@pytest.mark.parametrize(("name", "beside"), [("llama-3.1-70b", 256), ("qwen3-235b-a22b", 248), ("qwen3-30b-a3b", 8)])
def test_the_split_is_compared_with_the_best_cut_of_one_system(name: str, beside: int) -> None:
    where = deployed(name, "hgx-b200")
    report = afd_report(where, catalog().system("hgx-b200"), 8, beside, 64, 4096)
    assert report.together_step_s is not None
    chips = 8 + beside
    for cut in ({"data": chips}, {"data": chips // 8, "tensor": 8}, {"data": chips // 4, "tensor": 4, "expert": 1}):
        whole = deployed(name, "hgx-b200", **cut)
        shape = whole.decode_shape(64, 4096)
        cost = calibrated_cost(whole.work(shape), shape, whole.system, Coefficients(), whole.cut)
        assert report.together_step_s <= float(cost.step_s) or not whole.memory(4096, 64).fits
    assert report.speed_up == pytest.approx(report.together_step_s / report.step_s)


def test_hops_are_of_layers_that_have_a_feed_forward() -> None:
    """Blocks of Nemotron have a mixer or a feed-forward, never both."""
    where = deployed("nemotron-3-super-120b-a12b", "hgx-h200")
    report = afd_report(where, catalog().system("hgx-h100"), 8, 8, 64, 4096)
    apart = sum(layer.feed_forward.experts is not None for layer in where.model.layers)
    assert (apart, len(where.model.layers)) == (40, 88)
    assert report.choices[0].hops_s == pytest.approx(2 * apart * (5e-6 + report.hop_bytes / (8 * 50e9)))


def test_sides_that_do_not_fit() -> None:
    where = deployed("deepseek-v3", "hgx-b200")
    with pytest.raises(ShapeError, match=r"feed-forward needs .* GB on each lp30 .*: \d+ chips would do"):
        afd_report(where, catalog().system("lpx-256"), 8, 256, 64, 4096)
    with pytest.raises(ShapeError, match=r"attention needs .* GB on each b200-sxm .*: \d+ chips would do"):
        afd_report(where, catalog().system("hgx-b200"), 1, 16, 4096, 65_536)
    with pytest.raises(ShapeError, match=r"attention needs .* GB on each h100-sxm .*: no number of these chips does"):
        afd_report(deployed("llama-3.1-8b"), catalog().system("hgx-b200"), 1, 1, 10_000_000, 65_536)
    alone = replace(deployed("llama-3.1-8b"), system=catalog().system("m3-ultra-node"))
    with pytest.raises(ShapeError, match="has no link in the catalog"):
        afd_report(alone, catalog().system("hgx-b200"), 1, 1, 1, 1024)


@given(
    st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b"]),
    st.sampled_from([{"tensor": 8}, {"data": 8}, {"tensor": 2, "pipeline": 2, "data": 2}]),
    st.integers(1, 20_000),
    st.integers(2, 2000),
    st.floats(0.3, 1),
)
@example("llama-3.1-8b", {"tensor": 2, "pipeline": 2, "data": 2}, 1, 23, 1.0)
@settings(max_examples=30, deadline=None)
def test_turns_are_the_worst_for_one_pool_and_mixing_the_best(
    name: str, cut: dict[str, int], prompt: int, output: int, mfu: float
) -> None:
    where = deployed(name, mfu=mfu, **cut)
    for point in disaggregation_report(where, where, Workload(prompt, 0, output, 1), [1.0, 30.0, 100.0]).points:
        split, mixed = point.split_tokens_per_s_per_chip or 0, point.mixed_tokens_per_s_per_chip or 0
        turns = point.in_turns_tokens_per_s_per_chip or 0
        assert turns <= min(split, mixed) * (1 + 1e-9)
