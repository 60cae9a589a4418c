"""Prices, what they imply, fleets and lives."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from headway.arithmetic.formats import precision
from headway.arithmetic.shape import ShapeError
from headway.cli.plan import plan
from headway.planner.demand import Demand, fleet_report
from headway.planner.fast_mode import fast_mode_report
from headway.planner.implied import implied_report
from headway.planner.lifetime import lifetime_report
from headway.planner.price import Owner, PriceReport, Rates, Workload, payback_days, price_report
from tests.arithmetic.models import catalog, model
from tests.planner.deployments import deployed

WORK = Workload(prompt=4096, cached=1024, output=256, batch=32)
OWNER = Owner(usd_per_chip_hour=1.3, utilisation=0.5, purchase_usd=30_000, usd_per_kwh=0.1, overhead=1.5)


def priced(owner: Owner = OWNER, rates: Rates | None = None, work: Workload = WORK) -> PriceReport:
    return price_report(deployed(mfu=0.7), work, owner, rates or Rates(0.5, 0.05, 2.0))


def test_costs_add_up() -> None:
    report = priced()
    request = report.usd_per_mtok_input * (4096 - 1024) / 1e6 + report.usd_per_mtok_output * 256 / 1e6
    assert report.usd_per_request == pytest.approx(request)
    assert report.usd_per_request * report.requests_per_chip_hour == pytest.approx(1.3)
    assert report.revenue_usd_per_request == pytest.approx((3072 * 0.5 + 1024 * 0.05 + 256 * 2.0) / 1e6)
    assert report.margin is not None
    assert report.revenue_usd_per_request is not None
    assert 1 - report.margin == pytest.approx(report.usd_per_request / report.revenue_usd_per_request)
    assert report.electricity_usd_per_chip_hour == pytest.approx(0.7 * 1.5 * 0.1)


def test_an_idle_half_doubles_the_cost() -> None:
    busy = priced(replace(OWNER, utilisation=1.0))
    assert priced().usd_per_request == pytest.approx(2 * busy.usd_per_request)
    with pytest.raises(ShapeError, match="utilisation must be above 0"):
        priced(replace(OWNER, utilisation=0.0))


def test_costs_follow_from_the_chip_seconds_that_are_shown() -> None:
    report = priced()
    chip_s = report.prefill_chip_s + report.decode_chip_s
    assert report.usd_per_request == pytest.approx(chip_s / report.utilisation * report.usd_per_chip_hour / 3600)
    assert chip_s == pytest.approx(fleet_report(deployed(mfu=0.7), WORK, DEMAND).chip_s_per_request)
    hourly = report.usd_per_chip_hour / report.utilisation
    assert report.usd_per_mtok_output == pytest.approx(report.decode_chip_s * hourly / 3600 / WORK.output * 1e6)
    assert report.usd_per_mtok_input == pytest.approx(report.prefill_chip_s * hourly / 3600 / WORK.new * 1e6)


def test_a_prompt_beyond_the_step_pays_its_prices() -> None:
    price = catalog().price("gpt-6-sol")
    below, above = (Rates.listed(price, tokens) for tokens in (272_000, 272_001))
    assert (below.new, below.cached, below.output) == pytest.approx((2.0, 0.2, 10.0))
    assert (above.new, above.cached, above.output) == pytest.approx((4.0, 0.4, 15.0))
    assert Rates.listed(catalog().price("claude-opus-5-5"), 900_000) == Rates.listed(
        catalog().price("claude-opus-5-5"), 1
    )
    with pytest.raises(ShapeError, match=r"gpt-6-sol takes prompts of at most 922,000 tokens, not 922,001"):
        Rates.listed(price, 922_001)


def test_cached_tokens_beyond_a_step_cost_as_much_more_as_new_ones() -> None:
    """The catalog's notes say what they cost."""
    noted = [(p, re.search(r"cached input above the step: ([\d.]+)", p.note)) for p in catalog().prices.values()]
    said = [(price, float(found[1])) for price, found in noted if found]
    assert len(said) > 10
    for price, usd in said:
        assert price.max_input_tokens is not None
        assert Rates.listed(price, price.max_input_tokens).cached == pytest.approx(usd)


def test_prices_sold_at_are_said() -> None:
    report = priced(rates=Rates(0, 0, 0))
    assert (report.margin, report.payback_days) == (None, None)
    assert "sold at 0 USD a million new tokens, 0 cached, 0 output" in " ".join(report.assumptions)


def test_a_rumoured_purchase_price_is_marked() -> None:
    where = deployed("qwen3-8b", "xeon-6980p-node", "bf16", tensor=1)
    paid = where.system.chip.price_usd
    assert paid is not None
    for purchase_usd, marked in ((paid, True), (paid + 1, False), (None, False)):
        report = price_report(where, WORK, replace(OWNER, purchase_usd=purchase_usd), None)
        assert any(line.startswith("price_usd 12500 USD: rumour") for line in report.uncertain) == marked


def test_payback() -> None:
    assert payback_days(24_000, 11.0, 1.0) == pytest.approx(100)
    assert payback_days(24_000, 1.0, 1.0) is None
    assert payback_days(None, 11.0, 1.0) is None
    assert priced(rates=Rates(0, 0, 1e-6)).payback_days is None
    assert priced(replace(OWNER, purchase_usd=None)).payback_days is None


def test_larger_batches_are_cheaper_and_slower() -> None:
    small, large = (priced(work=replace(WORK, batch=b)) for b in (4, 64))
    assert large.usd_per_mtok_output < small.usd_per_mtok_output
    assert large.interactivity_tokens_per_s < small.interactivity_tokens_per_s


def test_one_output_token_costs_no_decode() -> None:
    report = priced(work=replace(WORK, output=1))
    assert (report.decode_chip_s, report.usd_per_mtok_output) == (0, 0)


def test_a_fast_mode_costs_more() -> None:
    args = ("", model("llama-3.1-70b"), [catalog().system("hgx-b200")], [precision("fp8")], 4096, {}, 8)
    report = fast_mode_report(*args, 40.0, 2.5)
    assert report.price_multiplier > 1
    assert report.base.interactivity_tokens_per_s >= 40
    assert report.fast.interactivity_tokens_per_s >= 100
    ratio = report.base.throughput_tokens_per_s_per_chip / report.fast.throughput_tokens_per_s_per_chip
    assert report.price_multiplier == pytest.approx(ratio)
    with pytest.raises(ShapeError, match=r"nothing gives every user .* tokens/s: .*; the nearest: "):
        fast_mode_report(*args, 40.0, 1000)


def test_what_prices_imply_is_a_range() -> None:
    args = (catalog().system("hgx-h100"), catalog().tiers, (5e10, 2e11), 1.3, 4)
    report = implied_report(catalog().price("gpt-6-sol"), *args)
    assert len(report.hypotheses) == 4
    assert all(h.low < h.high and h.hypothesis and h.reading for h in report.hypotheses)
    step = report.hypotheses[2]
    assert step.low <= 1225 <= step.high
    busy = report.hypotheses[0]
    assert (busy.low, busy.high) == pytest.approx((0.4 / 5, 0.9 / 5))
    assert report.tier_of_ttl in {tier.tier for tier in report.tiers}
    plain = implied_report(catalog().price("gpt-4o"), *args)
    assert len(plain.hypotheses) == 2
    assert plain.tier_of_ttl is None
    assert all(tier.kv_bytes_per_token_paid is None for tier in plain.tiers)
    with pytest.raises(ShapeError, match="must rise from above 0"):
        implied_report(catalog().price("gpt-4o"), args[0], args[1], (2e11, 5e10), 1.3, 4)


def test_what_a_cache_write_pays_for() -> None:
    price = catalog().price("claude-opus-5-5")
    report = implied_report(price, catalog().system("hgx-h100"), catalog().tiers, (5e10, 2e11), 1.3, 4)
    hbm = next(tier for tier in report.tiers if tier.tier == "hbm")
    assert hbm.kv_bytes_per_token_paid == pytest.approx(1e-6 / (300 / 3600) / (1.3 / 80e9))
    assert hbm.kv_bytes_per_token_paid_long == pytest.approx(4e-6 / (1.3 / 80e9))


def test_a_time_to_live_lies_between_two_tiers() -> None:
    supposed = catalog().system("hgx-h100"), catalog().tiers, (5e10, 2e11), 1.3, 4
    report = implied_report(catalog().price("claude-opus-5-5"), *supposed)
    drains = {tier.tier: tier.drain_s for tier in report.tiers}
    for held, ttl_s, nearest in zip(
        report.hypotheses[-2:], (300, 3600), (report.tier_of_ttl, report.tier_of_long_ttl), strict=True
    ):
        assert held.low <= ttl_s < held.high
        assert not any(held.low < drain < held.high for drain in drains.values())
        assert nearest is not None
        assert drains[nearest] in {held.low, held.high}
    few = implied_report(catalog().price("gpt-6-sol"), supposed[0], {}, *supposed[2:]).hypotheses[-1]
    assert few.low == few.high == catalog().chip("h100-sxm").drain_s


def test_what_is_announced_of_the_supposed_system_is_marked() -> None:
    rubin = catalog().system("vr200-nvl72")
    said = implied_report(catalog().price("gpt-4o"), rubin, catalog().tiers, (5e10, 2e11), 1.3, 4).uncertain
    for figure in ("hbm_bytes_per_s", "host_bytes_per_s"):
        assert any(line.startswith(f"{figure} ") and ": announced" in line for line in said)


def test_what_implies_nothing_is_left_out() -> None:
    free = replace(catalog().price("gpt-4o"), cached_input_usd_per_mtok=0.0)
    report = implied_report(free, catalog().system("hgx-h100"), catalog().tiers, (5e10, 2e11), 1.3, 4)
    assert [h.unit for h in report.hypotheses] == ["share of the arithmetic busy in decode"]


def test_a_chip_without_bf16_is_supposed_at_the_rate_that_it_has() -> None:
    report = implied_report(
        catalog().price("gpt-6-sol"), catalog().system("lpx-256"), catalog().tiers, (1e11, 1e11), None, 4
    )
    assert report.hypotheses[2].low == pytest.approx(2e11 / 272_000 / catalog().chip("lp30").ridge("fp8"))


DEMAND = Demand(1e6, 10, 2.0, 3.0, 2, 0.5, 0.6, 6, 30, 1.5)


def test_a_fleet_grows_with_its_users() -> None:
    report = fleet_report(deployed(mfu=0.7), WORK, DEMAND)
    first, second, third = report.years
    assert [year.users for year in report.years] == [1e6, 3e6, 9e6]
    assert third.serving_chips == pytest.approx(9 * first.serving_chips, rel=0.15)
    assert first.serving_chips % 8 == 0
    assert first.training_chips == first.serving_chips
    assert first.requests_per_s == pytest.approx(1e6 * 10 / 86_400 * 2)
    need = first.requests_per_s * report.chip_s_per_request / 0.6
    assert need <= first.serving_chips < need + 8
    chips = second.serving_chips + second.training_chips
    assert second.power_w == pytest.approx(chips * (700 * 1.5 + 6 * 30))
    assert second.transceivers == 6 * chips


def test_a_fleet_is_rented_at_what_is_asked_else_as_the_catalog_has_it() -> None:
    known, unknown = deployed(mfu=0.7), deployed("qwen3-8b", "m3-ultra-node", weights="bf16", tensor=1)
    for where, given, hourly in ((known, None, 1.3), (known, 2.6, 2.6), (unknown, None, None), (unknown, 2.6, 2.6)):
        report = fleet_report(where, WORK, DEMAND, given)
        assert report.usd_per_chip_hour == hourly
        for year in report.years:
            chips = year.serving_chips + year.training_chips
            rent = None if hourly is None else pytest.approx(chips * hourly * 24 * 365.25)
            assert year.rent_usd_per_year == rent


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("training_share", 1.0, "training share"), ("utilisation", 0.0, "utilisation"), ("years", 31, "years must be")],
)
def test_demand_that_cannot_be(field: str, value: float, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        replace(DEMAND, **{field: value})


@pytest.mark.parametrize("change", [{"users": 1e18}, {"growth": 1e6}, {"training_share": 1 - 1e-12}])
def test_a_fleet_beyond_counting(change: dict[str, float]) -> None:
    with pytest.raises(ShapeError, match=r"users in year \d need .* chips to serve them; 1e\+15"):
        fleet_report(deployed(mfu=0.7), WORK, replace(DEMAND, **{"users": 1e9, "growth": 1e3, **change}))


def test_a_life_of_serving() -> None:
    report = lifetime_report("", model("deepseek-v3"), 15e12, 50e6, 60, 4.0, 0.4, 0.2)
    assert report.served_output_tokens == pytest.approx(2.592e14)
    assert report.served_tokens == pytest.approx(5 * 2.592e14)
    assert report.served_over_training == pytest.approx(report.served_tokens / 15e12)
    balanced = lifetime_report("", model("deepseek-v3"), report.balanced_training_tokens, 50e6, 60, 4.0, 0.4, 0.2)
    assert balanced.serving_over_training_chip_time == pytest.approx(1)
    with pytest.raises(ShapeError, match="serving mfu"):
        lifetime_report("", model("deepseek-v3"), 15e12, 50e6, 60, 4.0, 0.4, 0.0)


@pytest.mark.parametrize(
    ("question", "rests_on_rent"),
    [
        ("roofline llama-3.1-8b", False),
        ("memory llama-3.1-8b", False),
        ("price llama-3.1-8b", True),
        ("price llama-3.1-8b --usd-per-chip-hour 2", False),
        ("receipt llama-3.1-8b", True),
        ("receipt llama-3.1-8b --usd-per-chip-hour 2", False),
        ("fleet llama-3.1-8b", True),
        ("fleet llama-3.1-8b --usd-per-chip-hour 2", False),
        ("best llama-3.1-8b --slo 40", True),
    ],
)
def test_a_rumoured_rent_is_said_where_dollars_rest_on_it(question: str, rests_on_rent: bool) -> None:
    answer = CliRunner().invoke(plan, [*question.split(), "--system", "hgx-b300", "--json"])
    assert answer.exit_code == 0, answer.output
    assert any("rent_usd_per_hour" in line for line in json.loads(answer.output)["uncertain"]) == rests_on_rent
