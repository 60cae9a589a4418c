"""Where two questions overlap they give the same answer, however the model is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.arithmetic.formats import precision
from headway.cli.plan_options import fit_for
from headway.planner.afd import afd_report
from headway.planner.best import best_report
from headway.planner.decoding import decode_report
from headway.planner.deployment import Deployment
from headway.planner.disaggregation import disaggregation_report
from headway.planner.energy import energy_report
from headway.planner.fast_mode import fast_mode_report
from headway.planner.journey import journey_report
from headway.planner.lengths import Lengths
from headway.planner.pareto import pareto_report
from headway.planner.prefix import prefix_report
from headway.planner.price import Owner, Workload, price_report
from headway.planner.request import request_receipt
from headway.planner.step import roofline_report
from headway.planner.uncertain import uncertain_of_several
from tests.arithmetic.models import catalog, model
from tests.planner.deployments import deployed

WORK = Workload(8191, 0, 2, 32)
"""One decode step of 32 sequences of 8,192 tokens."""
CUTS = [
    ("llama-3.1-70b", {"tensor": 8}),
    ("llama-3.1-70b", {"tensor": 2, "pipeline": 4}),
    ("llama-3.1-70b", {"tensor": 4, "data": 2}),
    ("qwen3-30b-a3b", {"data": 8, "expert": 8}),
    ("qwen3-30b-a3b", {"tensor": 2, "data": 2, "expert": 2, "pipeline": 2}),
]


def at_floor(name: str, cut: dict[str, int]) -> Deployment:
    return deployed(name, mfu=1.0, **cut)


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_a_request_sees_the_steps_of_decode(name: str, cut: dict[str, int], fitted: bool) -> None:
    where = deployed(name, fitted=fitted, **cut)
    point = decode_report(where, [32], [8192]).points[0]
    receipt = request_receipt(where, WORK)
    assert receipt.floor.tpot_s == pytest.approx(point.step_s)
    assert journey_report(where, WORK, 0.1, 0.5).tpot_s == pytest.approx(point.engine_step_s or point.step_s)
    if fitted:
        assert receipt.calibrated is not None
        assert receipt.calibrated.tpot_s == pytest.approx(point.engine_step_s)


@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_who_boards_waits_for_half_a_step_of_the_others(name: str, cut: dict[str, int]) -> None:
    """A request by itself waits for none."""
    where = deployed(name, **cut)
    one, most = (point.step_s for point in decode_report(where, [1, 31], [8191]).points)
    for batch, step_s in ((1, 0.0), (2, one), (32, most)):
        stages = journey_report(where, Workload(8191, 0, 2, batch), 0.1, 0.5).stages
        [boarding] = [stage for stage in stages if stage.name == "boarding"]
        assert boarding.duration_s == pytest.approx(step_s / 2)


@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_a_receipt_and_a_price_count_the_same_chip_seconds(name: str, cut: dict[str, int]) -> None:
    where = at_floor(name, cut)
    cost, price = request_receipt(where, WORK).floor, price_report(where, WORK, Owner(3.0, 1.0, None, 0, 1.0), None)
    power_w = where.system.chip.tdp_w
    assert power_w is not None
    assert cost.prefill_j == pytest.approx(price.prefill_chip_s * power_w)
    assert cost.decode_j == pytest.approx(price.decode_chip_s * power_w)
    prefix = prefix_report(where, catalog().tiers, 8191, 3.0, 4.0)
    assert prefix.recompute_usd == pytest.approx(price.prefill_chip_s * 3.0 / 3600)


@pytest.mark.parametrize("batch", [5, 32])
@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_joules_of_energy_roofline_and_receipt(name: str, cut: dict[str, int], batch: int) -> None:
    where = at_floor(name, cut)
    one, prompt = energy_report(where, catalog().energy, batch, 8192).steps
    roof, point = roofline_report(where, 8192, batch), decode_report(where, [batch], [8192]).points[0]
    for step, other in ((one, roof.decode), (prompt, roof.prefill)):
        assert step.tokens == other.tokens
        assert step.energy_j == pytest.approx(other.energy_at_tdp_j)
    assert roof.decode.tokens_per_s_per_chip == pytest.approx(point.tokens_per_s_per_chip)
    cost = request_receipt(where, Workload(8191, 0, 2, batch)).floor
    assert cost.decode_j == pytest.approx(one.energy_j_per_token)
    assert request_receipt(where, Workload(8192, 0, 1, batch)).floor.prefill_j == pytest.approx(prompt.energy_j)


@pytest.mark.parametrize("cut", [{"tensor": 8}, {"tensor": 2, "pipeline": 4}, {"tensor": 2, "data": 4}])
def test_however_a_dense_model_is_cut_the_same_is_multiplied(cut: dict[str, int]) -> None:
    alone = energy_report(deployed("llama-3.1-8b", tensor=1), catalog().energy, 32, 8192).steps
    for step, other in zip(
        energy_report(at_floor("llama-3.1-8b", cut), catalog().energy, 32, 8192).steps, alone, strict=True
    ):
        assert step.multiplying_j == pytest.approx(other.multiplying_j)
        assert step.reading_j is not None
        assert other.reading_j is not None
        assert step.reading_j >= other.reading_j * (1 - 1e-9)


@pytest.mark.parametrize("batch", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("pipeline", [1, 4])
def test_groups_spend_what_each_would_by_itself(batch: int, pipeline: int) -> None:
    """Of a dense model; an idle one spends nothing. Passes through stages are dealt out to the groups in turn."""
    both = energy_report(deployed(tensor=2, data=2, pipeline=pipeline), catalog().energy, batch, 8192).steps[0]
    part = -(-batch // min(pipeline, batch))
    passes = [min(part, batch - done) for done in range(0, batch, part)]
    groups = [size for one in passes for size in (-(-one // 2), one // 2) if size]
    alone = [energy_report(deployed(tensor=2), catalog().energy, size, 8192).steps[0] for size in groups]
    assert both.reading_j == pytest.approx(sum(step.reading_j or 0.0 for step in alone))
    assert both.multiplying_j == pytest.approx(sum(step.multiplying_j for step in alone))


@pytest.mark.parametrize("batch", [1, 3, 9])
def test_experts_that_all_groups_share_are_counted_once(batch: int) -> None:
    name = "qwen3-30b-a3b"
    steps = [
        energy_report(deployed(name, **cut), catalog().energy, batch, 8192).steps[0]
        for cut in ({"tensor": 1}, {"data": 8, "expert": 8})
    ]
    assert steps[1].multiplying_j == pytest.approx(steps[0].multiplying_j)
    assert (steps[0].reading_j or 0.0) <= (steps[1].reading_j or 0.0)


def test_what_is_said_of_prompts_is_what_is_counted() -> None:
    where = deployed("llama-3.1-8b", fitted=True, tensor=1)
    each = where.prompt(1024)
    assert each.each_s < each.together_s == each.alone_s
    price = price_report(where, WORK, Owner(3.0, 1.0, None, 0, 1.0), None)
    assert price.prefill_chip_s == where.prompt(8191).each_s
    assert "a prompt rides in steps that are launched for others too, as the fit has it" in price.assumptions
    journey = journey_report(where, WORK, 0.1, 0.5)
    assert "a prompt is computed by itself, as the fit has it" in journey.assumptions
    alone = next(stage for stage in journey.stages if stage.name.startswith("prompt"))
    assert alone.duration_s == where.prompt(8191).alone_s


def test_a_fast_mode_is_between_the_bests_of_both_speeds() -> None:
    """Chips have prices: the most tokens a chip are not the cheapest."""
    systems = [catalog().system(name) for name in ("hgx-h100", "gb300-nvl72")]
    found = {system.chip.name: fit_for(catalog(), system.chip.name, "vllm") for system in systems}
    fits = {chip: fit for chip, fit in found.items() if fit is not None}
    assert len(fits) == 2
    asked = ("", model("llama-3.1-70b"), systems, [precision("fp8")], Lengths(8192, 0, 1024))
    report = fast_mode_report(*asked, fits, 72, 15.0, 4.0)
    base, fast = (best_report(*asked, speed, fits).best[0] for speed in (15.0, 60.0))
    assert (report.base, report.fast) == (base, fast)
    assert base.usd_per_mtok is not None
    assert fast.usd_per_mtok is not None
    assert report.price_multiplier == pytest.approx(fast.usd_per_mtok / base.usd_per_mtok)
    frontier = pareto_report(*asked, fits, 15.0).best_at_slo
    assert frontier is not None
    assert (base.chip, frontier.chip) == ("h100-sxm", "gb300")


def test_groups_of_a_dense_model_are_replicas() -> None:
    """Each has a request like it: what one costs is what it costs alone."""
    alone = request_receipt(deployed("llama-3.1-8b", fitted=True, tensor=1), replace(WORK, batch=4))
    eight = request_receipt(deployed("llama-3.1-8b", fitted=True, data=8), WORK)
    assert eight.floor == alone.floor
    assert eight.calibrated == alone.calibrated


def test_groups_compute_their_prompts_side_by_side() -> None:
    one, four = deployed("llama-3.1-8b", tensor=1), deployed("llama-3.1-8b", data=4)
    work = Workload(8192, 0, 512, 8)
    speed = [20.0]
    alone, together = (disaggregation_report(where, where, work, speed).points[0] for where in (one, four))
    assert alone.in_turns_tokens_per_s_per_chip is not None
    assert together.in_turns_tokens_per_s_per_chip == pytest.approx(alone.in_turns_tokens_per_s_per_chip, rel=0.02)


@pytest.mark.parametrize("output", [2, 3, 512])
def test_pools_take_the_chip_seconds_that_a_price_counts(output: int) -> None:
    """The prompt's step draws the first token: a request of two tokens has one decode step."""
    where = deployed(mfu=1.0)
    speed = 1 / float(where.decode_s(32, 2048 + max(1, output // 2)))
    work = Workload(2048, 0, output, 32)
    point = disaggregation_report(where, where, work, [speed * (1 - 1e-9)]).points[0]
    price = price_report(where, work, Owner(3.0, 1.0, None, 0, 1.0), None)
    assert point.split_batch == 32
    assert point.prefill_chips_per_decode_chip == pytest.approx(price.prefill_chip_s / price.decode_chip_s, rel=2e-3)
    assert point.split_tokens_per_s_per_chip == pytest.approx(output * price.requests_per_chip_hour / 3600, rel=2e-3)


def test_whose_an_uncertain_figure_is_is_said_where_two_systems_serve() -> None:
    here, there = deployed(), deployed(system="vr200-nvl72")
    apart = afd_report(there, catalog().system("lpx-256"), 8, 256, 64, 4096).uncertain
    assert "hbm_bytes_per_s 22000 GB/s: announced" in " ".join(apart)
    for said, names in (
        (apart, ("vr200-nvl72", "lpx-256")),
        (disaggregation_report(there, here, Workload(8192, 0, 64, 32), [20.0]).uncertain, ("vr200-nvl72", "hgx-h100")),
    ):
        assert said == uncertain_of_several([catalog().system(name) for name in names])
        assert all(line.endswith(tuple(f"{name})" for name in names)) for line in said)
    assert not any("(" in line for line in disaggregation_report(here, here, WORK, [20.0]).uncertain)
