"""The page and the tables: nothing from outside gets through unescaped, and figures are those of the runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console

from headway.bench.record import Record
from headway.bench.results import ResultError, write_run
from headway.bench.run import Run
from headway.bench.slo import Slo
from headway.bench.summary import objections, summarise
from headway.cli.simulate import simulate
from headway.report.cases import Case, case_of, read_cases
from headway.report.charts import charts, pareto
from headway.report.page import page
from headway.report.simulated import read_simulated
from headway.report.tables import error_tables, latency_tables, number, rate_table
from headway.report.terminal import print_cases
from headway.workload.call import Call, Workload
from tests.bench.asking import ENDPOINT, drive
from tests.bench.scripted import Server, answer, whole

HOSTILE = """</title><script>alert(1)</script>"'><img src=x onerror=alert(1)>[bold]{{ 7*7 }}&amp;"""
SLO = Slo(ttft_s=2.0)


def made_run(records: list[Record], label: str, concurrency: int) -> Run:
    return Run(
        label=label,
        started_at="2026-01-01T00:00:00+00:00",
        url="http://test/v1",
        endpoint=ENDPOINT,
        server={"id": label},
        workload={"name": "w", "seed": 0},
        load={"concurrency": concurrency},
        prompts={},
        client={},
        slo=SLO,
        summary=summarise(records, [0.001], SLO),
    )


def measured(label: str = "mine", concurrency: int = 2, ttft_s: float = 1.0, failing: bool = False) -> Case:
    calls = [(Call(str(i), 10, 4),) for i in range(12)]
    good = answer(ttft_s, [0.1, 0.2, 0.3])
    bad = whole(500, f'{{"error": {{"message": {json.dumps(HOSTILE)}}}}}'.encode(), "content-type: application/json")
    server = Server(lambda number: bad if failing and number == 3 else good)
    records = drive(Workload("w", calls, concurrency=concurrency), server).records
    return case_of(made_run(records, label, concurrency), records)


def simulated(tmp_path: Path, **around: Any) -> list[Case]:
    spread = {"mean": 1.1, "p50": 1.0, "p90": 1.2, "p99": None, "max": 1.4}
    summary = {
        "ttft_s": spread,
        "tpot_s": {"mean": 0.3, "p50": 0.2},
        "interactivity_tokens_per_s": 5.0,
        "output_tokens_per_s": 4.0,
        "goodput_share": 0.5,
        "finished": 12,
        "refused": {"expired": 1},
    }
    path = tmp_path / "simulated.json"
    path.write_text(json.dumps({"runs": [around | {"summary": summary}]}))
    return read_simulated(path)


class Outline(HTMLParser):
    """Tags, attributes, and text, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def test_the_page_runs_nothing_loads_nothing_and_escapes_everything() -> None:
    text = page([measured(HOSTILE, failing=True), measured("peer", 4)], HOSTILE)
    outline = Outline(text)
    assert not {"script", "img", "iframe", "link", "object", "embed", "foreignobject"} & set(outline.tags)
    assert not [
        name for name, _ in outline.attributes if name.startswith("on") or name in ("src", "href", "xlink:href")
    ]
    assert "default-src 'none'" in text
    assert HOSTILE not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ 7*7 }}" in text
    assert "49" not in re.findall(r"onerror=alert\(1\)&gt;\[bold\](\S*)", text)
    assert "not a result" not in text
    assert "1 of 12 answers failed" in text


def test_ids_of_several_pictures_differ_and_references_resolve() -> None:
    text = page([measured(), measured("peer", 4)], "t")
    outline = Outline(text)
    assert len(outline.ids) == len(set(outline.ids))
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(outline.ids)
    assert outline.tags.count("svg") == 7


def test_korean_labels_stay_text_on_the_page() -> None:
    text = page([measured("한국어 모델")], "보고서")
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "한국어 모델" in drawn


def test_a_run_that_is_none_says_so() -> None:
    case = measured()
    text = page([replace(case, warnings=("not a result: too late",))], "t")
    assert '<p class="warning"><strong>mine, concurrency 2</strong>: not a result: too late</p>' in text


def test_tables_hold_the_runs_figures() -> None:
    cases = [measured(), measured(ttft_s=3.0, concurrency=4)]
    ttft = latency_tables(cases)[0]
    assert ttft.title == "TTFT, s (lower is better)"
    assert [[cell.text for cell in row] for row in ttft.rows] == [
        ["concurrency 2", "1.00", "1.00", "1.00", "1.00"],
        ["concurrency 4", "3.00", "3.00", "3.00", "3.00"],
    ]
    assert [row[1].tone for row in ttft.rows] == ["good", ""]
    rates = {row[0].text: [cell.text for cell in row[1:]] for row in rate_table(cases).rows}
    assert rates["output tokens/s"] == [number(48 / (6 * 1.6)), number(48 / (3 * 3.6))]
    assert rates["share within the SLO"] == ["1.00", "0"]


def test_what_is_no_result_is_never_the_best_nor_on_the_frontier() -> None:
    slow, fast = measured(ttft_s=3.0, concurrency=1), measured(ttft_s=1.0, concurrency=4)
    for refused in (False, True):
        cases = [slow, measured(ttft_s=2.0, concurrency=3), replace(fast, is_result=not refused)]
        tones = [row[1].tone for row in latency_tables(cases)[0].rows]
        assert tones == (["", "good", ""] if refused else ["", "", "good"])
        (output,) = [row for row in rate_table(cases).rows if row[0].text == "output tokens/s"]
        assert [cell.tone for cell in output[1:]] == tones
        chart = charts(cases)[0]
        front = {row["load"] for row in chart.spec["data"]["values"] if row["front"]}
        assert ("concurrency 4" in front) is not refused
        assert ("no result" in chart.caption) is refused
    assert case_of(made_run([], "none", 1)).is_result
    assert objections(made_run([], "none", 1).summary, 1.0) == ["no request was sent"]
    assert not case_of(structs.replace(made_run([], "none", 1), objections=["late"])).is_result


@pytest.mark.parametrize("width", [40, 80, 100])
def test_rates_of_many_runs_stand_in_several_tables_that_have_room(width: int) -> None:
    cases = [measured(f"a server of some name {i}", i + 1) for i in range(7)]
    console = Console(file=StringIO(), width=width, color_system=None)
    print_cases(cases, console)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [line.split("│")[2:-1] for line in output.splitlines() if line.startswith("│ output tokens/s")]
    assert len(rows) > 1
    assert [cell.strip() for row in rows for cell in row] == [number(c.rates["output_tokens_per_s"]) for c in cases]


def test_the_terminal_shows_markup_as_it_is() -> None:
    console = Console(file=StringIO(), width=400, color_system=None)
    print_cases([measured("[red]x[/] [/nonsense]"), measured("peer")], console)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]x[/] [/nonsense]" in output
    assert "mean over a request, first token left out" in output


def test_measured_beside_simulated(tmp_path: Path) -> None:
    cases = [measured(concurrency=2), measured(concurrency=4), *simulated(tmp_path, model="m", concurrency=2)]
    (table,) = error_tables(cases)
    assert table.title == "mine, concurrency 2 beside m, concurrency 2 (simulated)"
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["TTFT mean, s"] == ["1.00", "1.10", "+10.0%"]
    assert rows["TPOT p50, ms"] == ["200", "200", "+0.0%"]
    assert rows["output tokens/s"] == [number(5.0), number(4.0), "-20.0%"]
    assert "TTFT p99, s" not in rows, "null is no figure"


def test_one_simulation_without_a_load_stands_beside_a_single_run(tmp_path: Path) -> None:
    assert len(error_tables([measured(), *simulated(tmp_path)])) == 1
    assert error_tables([measured()]) == []


def test_a_simulations_quantiles_are_on_the_axes_of_the_measured_cdf(tmp_path: Path) -> None:
    (chart,) = [chart for chart in charts([measured(), *simulated(tmp_path)]) if chart.name == "cdf-ttft"]
    points = [row for row in chart.spec["data"]["values"] if not row.get("line")]
    assert [(row["x"], row["y"]) for row in points] == [(1.0, 0.5), (1.2, 0.9)]


def test_a_legend_names_what_is_drawn(tmp_path: Path) -> None:
    legends = [
        chart.spec["layer"][0]["encoding"]["color"]["legend"]["values"]
        for chart in charts([*simulated(tmp_path), measured()])
        if chart.name in ("throughput", "in-flight")
    ]
    assert legends == [["mine, concurrency 2"]] * 2


def test_the_simulators_own_result_is_read(tmp_path: Path) -> None:
    options = ["--requests", "20", "--concurrency", "2", "--model", "smollm2-135m", "--json"]
    result = CliRunner().invoke(simulate, [*options, "--out", str(tmp_path / "s.parquet")])
    (tmp_path / "s.json").write_text(result.stdout)
    (case,) = read_cases([tmp_path / "s.json", tmp_path / "s.parquet"])
    assert (case.name, case.outcomes["finished"]) == ("smollm2-135m on 1 x h100-sxm, concurrency 2 (simulated)", 20)
    assert set(case.samples) >= {"ttft_s", "tpot_s", "e2e_s"}
    assert {"ttft_s", "tpot_s", "itl_s", "e2e_s"} <= case.spreads.keys()
    (table,) = error_tables([measured(concurrency=2), case])
    tokens = json.loads(result.stdout)
    total = (tokens["input_tokens"] + tokens["output_tokens"]) / tokens["duration_s"]
    (row,) = [row for row in table.rows if row[0].text == "total tokens/s"]
    assert row[2].text == number(total)


def test_a_sweep_is_read_from_its_file_as_from_what_it_printed(tmp_path: Path) -> None:
    options = ["--requests", "4", "--model", "smollm2-135m", "--jobs", "1", "--sweep", "concurrency=1,2"]
    result = CliRunner().invoke(simulate, [*options, "--json", "--out", str(tmp_path / "s.jsonl")])
    (tmp_path / "s.json").write_text(result.stdout)
    printed, kept = (read_cases([tmp_path / name]) for name in ("s.json", "s.jsonl"))
    assert {case.load for case in printed} == {"concurrency 1", "concurrency 2"}
    assert sorted(printed, key=lambda case: case.load) == sorted(kept, key=lambda case: case.load)
    assert len(error_tables([measured(concurrency=2), *kept])) == 1


def test_a_table_of_simulated_requests_is_a_case(tmp_path: Path) -> None:
    table = pa.table(
        {
            "reason": ["stop", "stop", "expired"],
            "ttft_s": [1.0, 3.0, 99.0],
            "tpot_s": [0.1, 0.0, 99.0],
            "e2e_s": [2.0, 3.0, 99.0],
            "arrival_s": [0.0, 1.0, 2.0],
            "output_tokens": [11, 1, 0],
        }
    )
    pq.write_table(table, tmp_path / "table.parquet")
    (case,) = read_simulated(tmp_path / "table.parquet")
    assert case.spreads["ttft_s"]["mean"].value == pytest.approx(2.0)
    assert case.samples["tpot_s"].tolist() == [0.1]
    assert case.rates["output_tokens_per_s"] == pytest.approx(12 / 4)
    assert case.outcomes == {"stop": 2, "expired": 1}


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"ttft_s": 3}', "[" * 100_000, "\x00"])
@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "x.parquet"])
def test_what_is_no_result_is_one_line(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ResultError, match=name) as caught:
        read_cases([tmp_path / name])
    assert "\n" not in str(caught.value)
    with pytest.raises(ResultError, match=r"run\.json"):
        read_cases([tmp_path])


def test_runs_with_one_name_are_told_apart(tmp_path: Path) -> None:
    records = drive(Workload("w", [(Call("0", 10, 4),)], concurrency=1), Server([answer(1.0, [0.1] * 3)])).records
    for name in ("a", "b"):
        write_run(tmp_path / name, made_run(records, "mine", 1), records)
    (tmp_path / "b" / "requests.parquet").rename(tmp_path / "kept")
    with pytest.raises(ResultError, match=r"requests\.parquet: No such file"):
        read_cases([tmp_path])
    (tmp_path / "kept").rename(tmp_path / "b" / "requests.parquet")
    with pytest.raises(ResultError, match=r"run\.json: a result of headway bench: name the directory"):
        read_cases([tmp_path / "a" / "run.json"])
    assert [case.name for case in read_cases([tmp_path])] == ["mine, concurrency 1 #1", "mine, concurrency 1 #2"]


COORDINATES = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(COORDINATES, COORDINATES), max_size=12))
def test_the_frontier_is_what_no_other_point_beats(points: list[tuple[float, float]]) -> None:
    def beaten(p: tuple[float, float]) -> bool:
        return any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)

    assert pareto(points) == {i for i, p in enumerate(points) if not beaten(p)}


def test_a_run_without_good_answers_still_has_a_page() -> None:
    records = drive(Workload("w", [(Call("0", 10, 4),)], concurrency=1), Server([whole(500, b"")])).records
    case = case_of(made_run(records, "broken", 1), records)
    assert "http_error" in page([case], "t")
    print_cases([case], Console(file=StringIO()))
