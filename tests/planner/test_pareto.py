"""The frontier is what no other configuration beats, and every point on it can be run."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner

from headway.arithmetic.formats import precision
from headway.arithmetic.parallelism import Parallelism
from headway.cli.plan import plan
from headway.planner import best
from headway.planner.best import best_report
from headway.planner.deployment import Deployment
from headway.planner.lengths import Lengths
from headway.planner.pareto import pareto_report
from headway.planner.sweep import batch_ladder, cuts
from headway.planner.uncertain import uncertain_figures
from headway.roofline import calibration, memory_plan
from tests.arithmetic.models import catalog, model

SYSTEMS = [catalog().system(name) for name in ("hgx-h100", "hgx-b200")]


def test_no_point_beats_another_on_the_frontier() -> None:
    report = pareto_report("", model("qwen3-30b-a3b"), SYSTEMS, [precision("fp8")], 4096)
    points = [(c.interactivity_tokens_per_s, c.throughput_tokens_per_s_per_chip) for c in report.frontier]
    assert len(points) > 5
    assert points == sorted(points, key=lambda p: -p[0])
    assert [p[1] for p in points] == sorted(p[1] for p in points)
    assert len({p[1] for p in points}) == len(points)
    assert report.considered > 500


def test_a_frontier_of_more_systems_is_never_behind() -> None:
    args = (model("llama-3.1-8b"), [precision()], 4096)
    one = pareto_report("", args[0], SYSTEMS[:1], args[1], args[2], slo_tokens_per_s=50)
    two = pareto_report("", args[0], SYSTEMS, args[1], args[2], slo_tokens_per_s=50)
    assert one.best_at_slo is not None
    assert two.best_at_slo is not None
    assert two.best_at_slo.throughput_tokens_per_s_per_chip >= one.best_at_slo.throughput_tokens_per_s_per_chip
    assert one.best_at_slo.interactivity_tokens_per_s >= 50


def test_every_point_fits_in_memory() -> None:
    shape = model("deepseek-v3")
    report = pareto_report("", shape, [catalog().system("gb200-nvl72")], [precision("fp8")], 32_768)
    assert report.frontier
    chip = catalog().chip("gb200")
    for c in report.frontier:
        assert memory_plan(shape, chip, 32_768, c.batch, precision("fp8"), c.parallelism).fits
        assert c.chips == c.parallelism.chips
        assert c.batch / c.tpot_s / c.chips == pytest.approx(c.throughput_tokens_per_s_per_chip)


def test_what_never_fits_has_no_frontier() -> None:
    report = pareto_report(
        "", model("kimi-k3"), [catalog().system("rtx-4090-node")], [precision()], 8192, slo_tokens_per_s=1
    )
    assert (report.frontier, report.best_at_slo, report.considered) == ((), None, 0)
    assert [str(each)[:40] for each in report.left_out] == ["1 of 1 cuts have no room for a sequence;"]


def test_what_leaves_nothing_is_counted_and_its_nearest_miss_named() -> None:
    """Against every configuration that the search without conditions has."""
    asked = ("", model("llama-3.1-70b"), SYSTEMS[:1], [precision()], Lengths(8192, 0, 1024))
    everything = pareto_report(*asked)
    fastest, considered = everything.frontier[0], everything.considered
    assert everything.left_out == ()
    room, slow = pareto_report(*asked, slo_tokens_per_s=1e6).left_out
    assert (slow.dropped, slow.considered) == (considered, considered)
    assert f"{fastest.interactivity_tokens_per_s:.4g} tokens/s a user" in slow.nearest
    assert (room.dropped, room.considered) == (2, 10), "weights of 141 GB, in one chip and in two"
    assert "2 x h100-sxm (hgx-h100) in bf16, which needs 73.41 GB of 72 GB a chip" in room.nearest
    [_, late] = pareto_report(*asked, slo_ttft_s=1e-6).left_out
    assert late.dropped == late.considered
    soonest_s = float(late.nearest.split(", ")[-1].split()[0])
    assert not pareto_report(*asked, slo_ttft_s=soonest_s * 0.99).frontier
    assert pareto_report(*asked, slo_ttft_s=soonest_s * 1.01).frontier


def test_conditions_that_only_together_leave_nothing_say_so() -> None:
    """One system decodes faster, the other computes prompts faster."""
    systems = [catalog().system(name) for name in ("epyc-9965-node", "dgx-spark-node")]
    asked = ("", model("llama-3.1-8b"), systems, [precision()], Lengths(8192, 0, 1024))
    for slo, ttft_s, system in ((36.0, None, "epyc-9965-node"), (1.0, 1.0, "dgx-spark-node")):
        assert {c.system for c in best_report(*asked, slo_tokens_per_s=slo, slo_ttft_s=ttft_s).best} == {system}
    slow, late, both = best_report(*asked, slo_tokens_per_s=36.0, slo_ttft_s=1.0).left_out
    assert max(slow.dropped, late.dropped) < both.dropped == both.considered
    assert both.condition == "configurations miss one or the other"
    assert "2 x dgx-spark (dgx-spark-node) in bf16, batch 1, with 33.81 tokens/s a user, 0.557 s" in both.nearest


@pytest.mark.parametrize("question", ["best", "pareto"])
def test_one_output_token_has_no_rate_that_a_user_sees(question: str) -> None:
    """An SLO of tokens/s that nothing could reach drops nothing; one of the first token does."""
    asked = [question, "llama-3.1-8b", "--output", "1", "--max-chips", "2", "--slo", "1000000", "--json"]
    run = CliRunner().invoke(plan, asked)
    answer = json.loads(run.stdout)
    assert (run.exit_code, answer["slo_tokens_per_s"], answer["left_out"]) == (0, None, [])
    assert any("no SLO of it is applied" in text for text in answer["assumptions"])
    assert "tokens/s for every user" not in run.stdout
    late = CliRunner().invoke(plan, [*asked, "--slo-ttft", "1ms"])
    assert late.exit_code == 1
    assert all("first token" in each["condition"] for each in json.loads(late.stdout)["left_out"])


@pytest.mark.parametrize("question", [["best", "--slo", "20"], ["pareto"], ["fast-mode"]])
def test_answers_say_which_figures_compared_are_uncertain(question: list[str]) -> None:
    """Each once, and whose it is where several systems are compared."""
    asked = [*question, "llama-3.1-8b", "--context", "4096", "--max-chips", "8", "--engine", "none"]
    one = json.loads(CliRunner().invoke(plan, [*asked, "--system", "vr200-nvl72", "--json"]).stdout)["uncertain"]
    assert set(one) == set(uncertain_figures(catalog().system("vr200-nvl72")))
    names = ("hgx-h100", "vr200-nvl72")
    run = CliRunner().invoke(plan, [*asked, *(word for name in names for word in ("--system", name))])
    said = run.stdout.split("\nuncertain\n")[1].splitlines()
    assert len(set(said)) == len(said)
    for name in names:
        for line in uncertain_figures(catalog().system(name)):
            [shown] = [each for each in said if each.startswith(f"  - {line} (")]
            assert name in shown
    assert any(line.startswith("  - hbm_bytes_per_s 22000 GB/s: announced") for line in said)


def test_fits_are_used_only_if_every_chip_has_one() -> None:
    h100 = calibration(catalog().calibration("h100-sxm", "vllm"))
    shape = model("llama-3.1-8b")
    one = pareto_report("", shape, SYSTEMS[:1], [precision()], 1024, {"h100-sxm": h100})
    two = pareto_report("", shape, SYSTEMS, [precision()], 1024, {"h100-sxm": h100})
    assert (one.cost_model, two.cost_model) == ("calibrated", "floor")


def test_cuts_divide_heads_and_experts() -> None:
    for name, long in itertools.product(("qwen3.5-27b", "gpt-oss-120b", "deepseek-v3"), (False, True)):
        found = list(cuts(model(name), catalog().system("gb200-nvl72"), long=long))
        assert len(set(found)) == len(found) > 10
        for cut in found:
            cut.check(model(name))
            assert cut.chips <= 72


@pytest.mark.parametrize(("name", "chips"), [("deepseek-v3", 64), ("llama-3.1-70b", 16)])
def test_a_long_cache_is_cut_by_its_tokens(name: str, chips: int) -> None:
    """More chips cut neither a latent by heads, nor eight heads beyond eight: each would read all of it."""
    rack = catalog().system("gb200-nvl72")
    found = pareto_report(name, model(name), [rack], [precision("fp8")], 1_000_000).frontier
    fastest = found[0]
    assert fastest.parallelism.context > 1
    whole = Deployment(name, model(name), rack, precision("fp8"), Parallelism(tensor=chips))
    assert fastest.interactivity_tokens_per_s > 1.5 / float(whole.decode_s(1, 1_000_000))
    short = pareto_report(name, model(name), [rack], [precision("fp8")], 1024).frontier
    assert {c.parallelism.context for c in short} == {1}


def test_batch_ladder() -> None:
    ladder = batch_ladder(8192)
    assert (ladder[0], ladder[-1]) == (1, 8192)
    assert len(ladder) <= 64
    assert (np.diff(ladder) > 0).all()
    assert batch_ladder(1).tolist() == [1]


def test_the_command() -> None:
    arguments = ["pareto", "llama-3.1-70b", "--system", "hgx-h200", "--weights", "fp8", "--slo", "60"]
    result = CliRunner().invoke(plan, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["cost_model"] == "calibrated"
    assert answer["best_at_slo"]["interactivity_tokens_per_s"] >= 60
    text = CliRunner().invoke(plan, arguments)
    assert "best at 60 tokens/s a user" in text.output
    assert "assuming" in text.output
    wrong = CliRunner().invoke(plan, ["pareto", "llama-3.1-70b", "--system", "nothing"])
    assert "system 'nothing' is not known" in wrong.output


def test_the_command_says_why_nothing_is_left() -> None:
    for question in (["pareto"], ["best", "--slo", "1"]):
        text = CliRunner().invoke(plan, [*question, "llama-3.1-8b", "--slo-ttft", "1us"]).output
        assert "  none\n" in text
        assert (
            "left out:\n  411 of 411 configurations take longer than 1e-06 s to a first token; the nearest: 8 x" in text
        )
    wrong = CliRunner().invoke(plan, ["fast-mode", "llama-3.1-8b", "--slo-ttft", "1us"])
    assert wrong.exit_code == 1
    assert "411 of 411 configurations take longer than 1e-06 s" in wrong.output


def test_the_best_reaches_the_slo_at_the_lowest_price() -> None:
    report = best_report("", model("llama-3.1-70b"), SYSTEMS, [precision("fp8")], 4096, slo_tokens_per_s=40)
    assert report.ordered_by == "usd_per_mtok"
    prices = [c.usd_per_mtok for c in report.best]
    assert len(prices) == 5
    assert None not in prices
    assert prices == sorted(prices)  # type: ignore[type-var]
    assert all(c.interactivity_tokens_per_s >= 40 for c in report.best)
    frontier = pareto_report("", model("llama-3.1-70b"), SYSTEMS, [precision("fp8")], 4096).frontier
    cheapest = min(c.usd_per_mtok for c in frontier if c.interactivity_tokens_per_s >= 40 and c.usd_per_mtok)
    assert prices[0] == pytest.approx(cheapest)
    assert "the second costs" in report.why
    one = best_report("", model("llama-3.1-70b"), SYSTEMS, [precision("fp8")], 4096, 40, count=1)
    assert (len(one.best), one.why) == (1, report.why)


def test_why_names_the_figure_that_decided() -> None:
    """Whatever the order, the figure that is named is the first in which the two differ."""
    asked = ("", model("qwen3-30b-a3b"), SYSTEMS, [precision("fp8")], Lengths(4096, 0, 512), 20)
    order = (best._MONEY, *best._TIES)
    seen = set()
    for first, second in itertools.pairwise(best_report(*asked, count=60).best):
        why = best._why([first, second], 20, None, 30.0, order)
        decided = next((f for f in order if best._rounded(f.of(first)) != best._rounded(f.of(second))), None)
        assert (decided.worse(first, second) if decided else "as good in every figure") in why
        assert "0.0%" not in why
        assert ("costs as much a token, but" in why) == (decided not in (None, order[0]))
        seen.add(order.index(decided) if decided else None)
    assert len(seen) > 1  # Some were ties.


@pytest.mark.parametrize(
    ("name", "system", "slo", "words"),
    [
        ("kimi-k3", "rtx-4090-node", 1, "fits no replica"),
        (
            "llama-3.1-8b",
            "hgx-h100",
            1e6,
            "no configuration gives every user 1e+06 tokens/s; the fastest gives 1724 tokens/s",
        ),
        ("llama-3.1-8b", "cs-3", 10, "no other cut reaches the SLO"),
    ],
)
def test_the_best_says_why_there_is_none(name: str, system: str, slo: float, words: str) -> None:
    assert words in best_report("", model(name), [catalog().system(system)], [precision()], 4096, slo).why


def test_the_best_command() -> None:
    arguments = ["best", "llama-3.1-70b", "--system", "hgx-h100", "--weights", "fp8", "--slo", "30"]
    answer = json.loads(CliRunner().invoke(plan, [*arguments, "--json"]).output)
    assert answer["cost_model"] == "calibrated"
    assert answer["best"][0]["interactivity_tokens_per_s"] >= 30
    text = CliRunner().invoke(plan, arguments).output
    assert answer["why"] in text
    assert CliRunner().invoke(plan, arguments[:-2]).exit_code == 2  # Without an SLO there is no best.


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["best", "smollm2-135m", "--slo", "100"], 0),
        (["best", "smollm2-135m", "--slo", "1e5"], 1),
        (["best", "kimi-k3", "--slo", "1", "--system", "rtx-4090-node", "--engine", "none"], 1),
        (["pareto", "smollm2-135m", "--slo", "100"], 0),
        (["pareto", "smollm2-135m", "--slo", "1e5"], 1),
        (["pareto", "kimi-k3", "--system", "rtx-4090-node", "--engine", "none"], 1),
        (["fast-mode", "smollm2-135m", "--slo", "1e5"], 1),
    ],
)
def test_nothing_found_is_exit_code_1(arguments: list[str], code: int) -> None:
    """With its reasons in the answer, as a person and as a program reads it."""
    assert CliRunner().invoke(plan, arguments).exit_code == code
    found = CliRunner().invoke(plan, [*arguments, "--json"])
    assert found.exit_code == code
    if arguments[0] != "fast-mode":
        assert bool(json.loads(found.output)["left_out"]) == bool(code)
