"""Charts: one Vega-Lite spec each, as a page without a network, a drawing or a picture; no letter becomes a box."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from click.testing import CliRunner

from headway.arithmetic.formats import precision
from headway.cli import main
from headway.planner.charts import kv_chart, memory_chart, pareto_chart, roofline_chart, timeline_chart
from headway.planner.journey import journey_report
from headway.planner.memory import memory_report
from headway.planner.pareto import pareto_report
from headway.planner.price import Workload
from headway.planner.step import roofline_report
from headway.report import rendering
from headway.report.rendering import ChartError, html, png, svg, undrawable, write_chart
from tests.arithmetic.models import catalog, model
from tests.planner.deployments import deployed

FONTS = Path(__file__).parents[1] / "data/fonts"
BARS: dict[str, Any] = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "data": {"values": [{"a": "x", "b": 1}]},
    "mark": "bar",
    "encoding": {"x": {"field": "a", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"}},
}


def _specs() -> dict[str, dict[str, Any]]:
    where = deployed()
    rooflines = [
        roofline_report(replace(where, system=catalog().system(name)), 4096, 16) for name in ("hgx-h100", "hgx-b200")
    ]
    frontiers = [
        pareto_report("m", model("llama-3.1-8b"), [catalog().system(name)], [precision()], 4096, None, 50.0)
        for name in ("hgx-h100", "hgx-b200")
    ]
    return {
        "roofline": roofline_chart(rooflines),
        "pareto": pareto_chart(frontiers),
        "memory": memory_chart([memory_report(where, 4096, 16)]),
        "kv": kv_chart([("m", where.model), ("n", model("deepseek-v3"))], where.precision, 100_000),
        "timeline": timeline_chart(journey_report(where, Workload(100, 0, 10, 4), 0.137, 0.5)),
    }


@pytest.fixture(scope="module")
def specs() -> dict[str, dict[str, Any]]:
    return _specs()


@pytest.mark.parametrize("name", ["roofline", "pareto", "memory", "kv", "timeline"])
def test_a_spec_is_drawn(name: str, specs: dict[str, dict[str, Any]]) -> None:
    drawing = svg(specs[name])
    assert drawing.startswith("<svg")
    assert drawing.count("<path") > 10
    assert "NaN" not in drawing
    for data in (layer["data"]["values"] for layer in specs[name]["layer"]):
        assert data


def test_the_roofline_stands_on_logarithmic_axes_with_a_roof_a_chip(specs: dict[str, dict[str, Any]]) -> None:
    roofs, points = specs["roofline"]["layer"]
    for channel in ("x", "y"):
        assert roofs["encoding"][channel]["scale"]["type"] == "log"
    assert {row["chip"] for row in roofs["data"]["values"]} == {"h100-sxm", "b200-sxm"}
    assert {row["step"] for row in points["data"]["values"]} == {"prefill", "decode"}


@pytest.mark.parametrize(("weights", "experts", "kv"), [("fp8", None, "fp8"), ("bf16", "mxfp4", "bf16")])
def test_every_operation_stands_on_a_roof(weights: str, experts: str | None, kv: str) -> None:
    where = replace(deployed("deepseek-v3", "hgx-b200"), precision=precision(weights, kv, experts))
    roofs, points = (part["data"]["values"] for part in roofline_chart([roofline_report(where, 4096, 256)])["layer"])
    ridges = {row["ridge"] for row in roofs}
    assert len(ridges) == 2
    for x, reached in ((row["intensity_flops_per_byte"], row["flops_per_s"]) for row in points):
        assert any(reached == pytest.approx(min(x, ridge) * 8e12) for ridge in ridges)
    for row in roofs:
        assert row["flops_per_s"] == pytest.approx(min(row["intensity_flops_per_byte"], row["ridge"]) * 8e12)


def test_the_frontier_is_a_staircase_with_a_line_at_the_slo(specs: dict[str, dict[str, Any]]) -> None:
    stairs, _, rule, text = specs["pareto"]["layer"]
    assert stairs["mark"]["interpolate"] == "step-before"
    assert rule["mark"]["type"] == "rule"
    assert rule["data"]["values"][0]["interactivity_tokens_per_s"] == 50
    assert text["data"]["values"][0]["slo"] == "SLO"


@pytest.mark.parametrize(("slo", "side"), [(50.0, "left"), (1e4, "right")])
def test_the_name_of_the_slo_stays_inside(slo: float, side: str) -> None:
    report = pareto_report("m", model("llama-3.1-8b"), [catalog().system("hgx-h100")], [precision()], 4096, None, slo)
    assert pareto_chart([report])["layer"][-1]["mark"]["align"] == side


def test_a_stack_fills_the_chip(specs: dict[str, dict[str, Any]]) -> None:
    bars = specs["memory"]["layer"][0]["data"]["values"]
    assert sum(row["bytes"] for row in bars) == pytest.approx(80e9)


def test_a_page_fetches_nothing() -> None:
    page = html(BARS)
    assert not re.findall(r"<(?:script|link)\b[^>]*\b(?:src|href)=", page)
    assert not re.search(r"cdn|jsdelivr|unpkg", page)
    assert "vega" in page


@pytest.mark.parametrize("label", ["</script><script>alert(1)</script>", "<!--", "a\x00b", "\ud800", "\ue0f3", "&lt;"])
def test_a_label_stays_a_label(label: str) -> None:
    plain, spec = html(BARS), {**BARS, "title": label}
    page = html(spec)
    assert page.count("</script>") == plain.count("</script>")
    assert page.count("<script") == plain.count("<script")
    assert page.count("<!--") == plain.count("<!--")
    assert svg(spec).startswith("<svg")


def test_korean_stays_text_where_the_reader_has_the_font() -> None:
    spec = {**BARS, "title": "서울의 처리량"}
    assert "서울의 처리량" in svg(spec)
    assert "서울의 처리량" in html(spec)


def test_korean_in_a_picture_is_drawn_or_refused_but_never_a_box() -> None:
    spec = {**BARS, "title": "서울"}
    if undrawable("서울"):
        with pytest.raises(ChartError, match=r"no font here has '서울': install one .*fonts-nanum"):
            png(spec)
    else:
        assert png(spec) != png({**BARS, "title": "부산"})


def test_korean_in_a_picture_is_drawn_with_a_font_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rendering.FONTS, str(FONTS))
    for cached in (rendering._register_fonts, rendering._has_font, rendering._picture):
        cached.cache_clear()
    assert undrawable("서울의 처리량") == ""
    seoul, busan, blank = (png({**BARS, "title": title}) for title in ("서울", "부산", " "))
    assert len({seoul, busan, blank}) == 3
    assert rendering._picture("서") != rendering._picture("울")  # Boxes are all alike.


def test_a_letter_that_no_font_has_is_refused() -> None:
    private = "\U000f0000"
    assert undrawable(f"abc é ß Ω Ж {private}") == private
    with pytest.raises(ChartError, match="no font here has"):
        png({**BARS, "title": private})


def test_fonts_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named: list[str] = []
    monkeypatch.setattr(vl_convert, "register_font_directory", named.append)
    rendering._register_fonts.cache_clear()
    monkeypatch.setenv(rendering.FONTS, str(tmp_path))
    svg(BARS)
    assert named == [str(tmp_path)]
    rendering._register_fonts.cache_clear()
    monkeypatch.setenv(rendering.FONTS, str(tmp_path / "none"))
    with pytest.raises(ChartError, match="there is no such directory"):
        svg(BARS)
    rendering._register_fonts.cache_clear()


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"must end in \.html, \.svg, \.png"):
        write_chart(BARS, tmp_path / "chart.gif")
    with pytest.raises(ChartError, match="No such file or directory"):
        write_chart(BARS, tmp_path / "none" / "chart.svg")


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        (["roofline", "llama-3.1-8b", "--beside", "hgx-b200"], "png"),
        (["pareto", "llama-3.1-8b", "--slo", "50", "--max-chips", "2"], "html"),
        (["memory", "llama-3.1-8b", "--beside", "hgx-b200"], "svg"),
        (["kv", "llama-3.1-8b", "--beside", "deepseek-v3"], "svg"),
        (["journey", "llama-3.1-8b"], "svg"),
    ],
)
def test_the_commands_draw(arguments: list[str], ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"chart.{ending}"
    result = CliRunner().invoke(main, ["plan", *arguments, "--title", "a title", "--chart", str(path), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)
    content = path.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<svg", "html": b"<!DOCTYPE html>"}[ending])
    if ending == "svg":
        assert b"a title" in content


def test_systems_that_share_a_chip_have_a_stack_each() -> None:
    where = deployed("llama-3.1-8b", tensor=1)
    other = replace(where.system, name="my-box")
    reports = [memory_report(replace(where, system=system), 4096, 16) for system in (where.system, other)]
    bars = memory_chart(reports)["layer"][0]["data"]["values"]
    assert {row["system"] for row in bars} == {"1 x h100-sxm (hgx-h100)", "1 x h100-sxm (my-box)"}
    alone = memory_chart(reports[:1])["layer"][0]["data"]["values"]
    assert {row["system"] for row in alone} == {"1 x h100-sxm"}
    for name in {row["system"] for row in bars}:
        assert sum(row["bytes"] for row in bars if row["system"] == name) == pytest.approx(80e9)


def test_systems_stand_as_they_were_named() -> None:
    where = deployed("llama-3.1-8b", tensor=1)
    reports = [memory_report(replace(where, system=catalog().system(n)), 64, 1) for n in ("hgx-h200", "hgx-b200")]
    drawing = svg(memory_chart(reports))
    assert drawing.index(">1 x h200-sxm<") < drawing.index(">1 x b200-sxm<")


def test_a_long_title_does_not_widen_the_picture() -> None:
    where = deployed("llama-3.1-8b", tensor=1)
    widths = [
        int(struct.unpack(">I", png(kv_chart([("m", where.model)], where.precision, 10, title))[16:20])[0])
        for title in ("a", "a" * 10_000)
    ]
    assert widths[0] < widths[1] < 3000


def test_a_frontier_of_nothing_says_so() -> None:
    report = pareto_report("m", model("llama-3.1-405b"), [catalog().system("l4-node")], [precision()], 4096, None, None)
    assert "nothing fits" in svg(pareto_chart([report]))


def test_the_shortest_context_is_a_line_too() -> None:
    where = deployed("llama-3.1-8b", tensor=1)
    lines, _ = kv_chart([("m", where.model)], where.precision, 1)["layer"]
    assert len(lines["data"]["values"]) > 1
