"""`headway simulate --sweep` and `--chart`: the grid, its table, its file, its charts, and what is said of mistakes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headway.catalog.machine import write_machine
from headway.cli.simulate import simulate
from headway.report.measures import MEASURES, MeasureError, measure
from headway.report.run_charts import Samples, run_chart
from headway.report.sweep_charts import chosen, sweep_chart
from headway.simulator.simulation import Results
from tests.machines import machine

TRACES = Path(__file__).parents[1] / "data" / "traces"
FEW = ("--requests", "10", "--jobs", "1")
MANY = ",".join(map(str, range(1, 500)))
GRID = ("--sweep", "system=hgx-h100,hgx-b200", "--sweep", "replicas=1,2")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments)


def answer(*arguments: str) -> dict[str, Any]:
    result = called(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_point_is_what_the_command_gives_alone() -> None:
    found = answer(*FEW, *GRID, "--sweep", "prefix-cache=on,off", "--slo-ttft", "10ms")
    assert found["axes"] == ["system", "replicas", "prefix-cache"]
    assert len(found["points"]) == found["total"] == 8
    values = {"system": "hgx-b200", "replicas": 2, "prefix-cache": False}
    point = next(point for point in found["points"] if point["values"] == values)
    alone = ("--requests", "10", "--system", "hgx-b200", "--replicas", "2", "--no-prefix-cache", "--slo-ttft", "10ms")
    assert point["result"] == answer(*alone)


def test_processes_give_the_same() -> None:
    arguments = ("--requests", "10", *GRID)
    assert answer(*arguments, "--jobs", "2") == answer(*arguments, "--jobs", "1")


def test_an_option_that_a_pools_machine_file_would_set_is_another_point(tmp_path: Path) -> None:
    """Given, the default value of --weights is not what the file says."""
    write_machine(machine(), tmp_path / "m.json")
    out = tmp_path / "rows.jsonl"
    pool = ("--pool", f"system={tmp_path / 'm.json'}", "--sweep", "seed=1", "--out", str(out))
    for number, more in enumerate(((), ("--weights", "bf16"), ())):
        assert called(*FEW, *pool, *more).exit_code == 0
        assert len(out.read_bytes().splitlines()) == (1, 2, 2)[number]


def test_the_table_has_a_row_a_point_and_says_what_did_not_fit() -> None:
    lines = called(*FEW, "--sweep", "model=llama-3.1-8b,llama-3.1-70b", "--sweep", "tensor=1,3,4").output.splitlines()
    assert lines[0].split()[:4] == ["model", "tensor", "TTFT", "p50"]
    assert [line.split()[:2] for line in lines[1:7]] == [
        [model, tensor] for model in ("llama-3.1-8b", "llama-3.1-70b") for tensor in "134"
    ]
    assert "tensor parallelism 3 does not divide 32 heads" in lines[2]
    assert "no room for a KV block" in lines[4]
    assert "6 points, 3 without a result; steps: floor" in lines[7]


def test_an_option_may_be_swept_over_its_default_and_over_values_with_commas() -> None:
    points = answer(*FEW, "--sweep", "calibrated=default,vllm")["points"]
    assert [point["result"]["cost_model"] for point in points] == ["floor", "calibrated to vllm"]
    text = called(*FEW, "--sweep", "calibrated=default,vllm", "--sweep", "replicas=1,2").output
    assert text.count("assuming: h100-sxm: TPOT is off by ") == 1
    pools = "pool=replicas=1,system=hgx-h100; replicas=1,system=hgx-h100 & replicas=2,system=hgx-b200,tensor=2;"
    assert [point["result"]["chips"] for point in answer(*FEW, "--sweep", pools)["points"]] == [1, 5]


def test_times_and_sizes_have_a_unit(tmp_path: Path) -> None:
    swept = (*FEW, "--sweep", "kv-ttl=1min,2h,default", "--sweep", "slo-ttft=50ms,1", "--sweep", "chunk=2048")
    head, *lines = called(*swept).output.splitlines()
    assert head.split()[:5] == ["kv", "ttl", "slo", "ttft", "chunk"]
    shown = [tuple(re.split(r"\s{2,}", line.strip())[:3]) for line in lines[:6]]
    assert shown == [(ttl, slo, "2048") for ttl in ("60 s", "7,200 s", "default") for slo in ("50 ms", "1 s")]
    found = answer(*swept)
    assert found["units"] == {"kv-ttl": "s", "slo-ttft": "s"}
    assert found["points"][0]["values"] == {"kv-ttl": 60, "slo-ttft": 0.05, "chunk": 2048}
    chart = tmp_path / "chart.html"
    called(*FEW, "--sweep", "kv-ttl=1min,2h", "--chart", str(chart), "--x", "kv-ttl", "--y", "ttft-p50")
    assert '"kv ttl (s)"' in chart.read_text()
    sizes = ("--pool", "role=prefill", "--pool", "role=decode", "--sweep", "handover-bandwidth=25GB,1GiB")
    assert [line.split("  ")[1] for line in called(*FEW, *sizes).output.splitlines()[1:3]] == ["25 GB", "1.074 GB"]


def test_it_goes_on_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "s.jsonl"
    first = answer(*FEW, *GRID, "--out", str(out))
    kept = out.read_bytes()
    assert kept.count(b"\n") == 4
    monkeypatch.setattr(Results, "add", None)
    assert answer(*FEW, *GRID, "--out", str(out)) == first, "nothing was simulated again"
    assert out.read_bytes() == kept
    changed = json.loads(called("--requests", "11", "--jobs", "1", *GRID, "--out", str(out), "--json").output)
    assert [point["error"] for point in changed["points"]] == ["TypeError: 'NoneType' object is not callable"] * 4


def test_another_trace_of_that_name_is_another_sweep(tmp_path: Path) -> None:
    trace, out = tmp_path / "t.csv", tmp_path / "s.jsonl"
    lines = (TRACES / "azure_conv.csv").read_text().splitlines(keepends=True)
    sweep = ("--trace", str(trace), "--jobs", "1", "--sweep", "replicas=1,2", "--out", str(out))
    for rows in (20, 30):
        trace.write_text("".join(lines[: rows + 1]))
        found = answer(*sweep)
        assert [point["result"]["calls"] for point in found["points"]] == [rows, rows]


def test_where_no_point_has_a_result_the_exit_code_says_so() -> None:
    result = called(*FEW, "--model", "deepseek-v3", "--sweep", "replicas=1,2")
    assert result.exit_code == 1
    assert "  1         weights take" in result.output
    assert "  2         as above" in result.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_ctrl_c_the_file_has_what_was_done(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "s.jsonl"
    command = (
        sys.executable,
        "-c",
        "from headway.cli import main; main()",
        "simulate",
        "--requests",
        "300",
        "--jobs",
        "2",
    )
    seeds = ",".join(map(str, range(400)))
    arguments = [*command, "--sweep", f"seed={seeds}", "--out", str(out)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (out.exists() and out.stat().st_size):
            time.sleep(0.02)
        process.send_signal(number)
        text, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    done = out.read_text().count("\n")
    assert 0 < done < 400
    told = re.search(r"(\d+) of 400 points, INTERRUPTED: run again to go on", text)
    assert told is not None
    assert done - 1 <= int(told[1]) <= done, "it may come between a row's being kept and its being told"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sweep", "systm=a,b"), "no option 'systm' to sweep: did you mean system"),
        (("--sweep", "qqqq=1"), "no option 'qqqq' to sweep: one of trace, agents"),
        (("--sweep", "out=1"), "no option 'out' to sweep"),
        (("--sweep", "json=1"), "no option 'json' to sweep"),
        (("--sweep", "replicas"), "write NAME=V1,V2"),
        (("--sweep", "replicas=1,,2"), "write NAME=V1,V2"),
        (("--sweep", "replicas=1,0"), "0 is not in the range"),
        (("--sweep", "replicas=1,one"), "'one' is not a valid integer"),
        (("--sweep", "replicas=1,1"), "a value is there twice"),
        (("--sweep", "system=hgx-h100,HGX_H100"), "a value is there twice"),
        (("--sweep", "replicas=1", "--sweep", "replicas=2"), "--sweep replicas is there twice"),
        (("--replicas", "1", "--sweep", "replicas=1,2"), "choose one: --replicas, or --sweep replicas"),
        (("--sweep", "system=hgx-h100,nope"), "system 'nope' is not known"),
        (("--sweep", "router=prefix,nope"), "router must be one of"),
        (("--sweep", "weights=bf16,fp3"), "number format 'fp3' is not known"),
        (("--sweep", "input-tokens=5;-1"), "lengths '-1' are not understood"),
        (("--sweep", "trace=/nowhere"), "/nowhere: No such file"),
        (("--sweep", "concurrency=1,2", "--rate", "1"), "--rate: not with --concurrency"),
        (("--sweep", f"seed={MANY}", "--sweep", f"replicas={MANY}"), "more than 20,000 points"),
        (("--sweep", "replicas=1,2", "--out", "t.parquet"), "--out t.parquet: must end in .jsonl of a sweep"),
        (("--sweep", "replicas=1,2", "--trace-out", "t.json"), "--trace-out: of one run: not with --sweep"),
        (("--sweep", "replicas=1,2", "--chart", "t.pdf"), "'t.pdf' must end in .html or .svg or .png"),
        (("--sweep", "replicas=1,2", "--chart", "t.svg", "--x", "replicas"), "--x and --y go together"),
        (("--sweep", "replicas=1,2", "--chart", "t.svg", "--x", "tftt-p50", "--y", "usd"), "did you mean ttft-p50"),
        (("--sweep", "replicas=1,2", "--chart", "t.svg", "--by", "system"), "--by system: must be a swept option"),
        (("--sweep", "replicas=1,2", "--by", "replicas"), "--by: only with --chart FILE"),
        (("--by", "replicas"), "--by: only with --sweep"),
        (("--ray", "auto", "--jobs", "2", "--sweep", "replicas=1,2"), "choose one: --jobs"),
        (("--chart", "t.pdf"), "'t.pdf' must end in"),
    ],
)  # fmt: skip
def test_a_mistake_gets_one_line_before_anything_runs(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = called(
        *arguments, *(() if "--out" in arguments else ("--out", "t.jsonl" if "--sweep" in arguments else "t.parquet"))
    )
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


# Charts


RESULTS = [
    (
        {"system": system, "load": load},
        {"interactivity_tokens_per_s": x, "output_tokens_per_s_per_chip": y, "hit_rate": 0.5},
    )
    for system, load, x, y in (("a", 1, 90, 10), ("a", 2, 50, 20), ("a", 3, 40, 15), ("b", 1, 95, 11), ("b", 2, 60, 12))
]  # fmt: skip


def marked(spec: dict[str, Any], key: str) -> list[tuple[str, float]]:
    return [(row["by"], row["x"]) for row in spec["data"]["values"] if row[key]]


def test_the_frontier_is_of_points_that_no_other_beats() -> None:
    spec = sweep_chart(RESULTS, chosen(["system", "load"]))
    assert marked(spec, "front") == [("a", 50), ("b", 95), ("b", 60)]
    assert marked(spec, "own") == [("a", 90), ("a", 50), ("b", 95), ("b", 60)]
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["a", "b"]


def test_axes_are_swept_options_or_figures() -> None:
    spec = sweep_chart(RESULTS, chosen(["system", "load"], x="load", y="hit-rate"))
    rows = spec["data"]["values"]
    assert [(row["x"], row["y"], row["by"]) for row in rows] == [(v["load"], 0.5, v["system"]) for v, _ in RESULTS]
    assert spec["layer"][0]["encoding"]["y"]["axis"]["format"] == "%"
    assert not sweep_chart(RESULTS, chosen(["system", "load"], x="load", y="ttft-p99"))["data"]["values"]


def test_what_is_on_no_axis_tells_lines_apart_or_lies_along_them() -> None:
    swept = ["system", "tensor", "load"]
    assert chosen(swept, x="load", y="hit-rate").apart == ("tensor",)
    assert chosen(swept, x="ttft-p50", y="usd").apart == ("tensor",), "along a line, load goes up"
    spec = sweep_chart(RESULTS, chosen(["system", "load"], x="hit-rate", y="throughput"))
    assert "strokeDash" not in spec["layer"][0]["encoding"]
    assert [row["rest"] for row in spec["layer"][2]["data"]["values"]] == ["1", "2", "3", "1", "2"]


def test_figures_have_names_and_places() -> None:
    assert measure("bound_share.compute").of({"bound_share": {"compute": 0.25}}) == 0.25
    with pytest.raises(MeasureError, match="neither a swept option nor a figure"):
        measure("nothing")


def test_every_measure_is_one_of_a_result() -> None:
    result = answer("--requests", "3", "--slo-ttft", "1s")
    assert [name for name, each in MEASURES.items() if each.of(result) is None] == []


@pytest.mark.parametrize("ending", ["svg", "html", "png"])
def test_charts_are_written(tmp_path: Path, ending: str) -> None:
    one, many = tmp_path / f"one.{ending}", tmp_path / f"many.{ending}"
    assert called("--requests", "5", "--chart", str(one)).exit_code == 0
    assert called(*FEW, *GRID, "--chart", str(many)).exit_code == 0
    kind = {"svg": b"<svg", "html": b"<!DOCTYPE html>", "png": b"\x89PNG"}[ending]
    assert one.read_bytes().startswith(kind)
    assert many.read_bytes().startswith(kind)


def test_a_chart_with_nothing_on_it_is_not_drawn(tmp_path: Path) -> None:
    """Goodput without an SLO, the frontier of calls that are all refused; no result at all."""
    chart = tmp_path / "c.svg"
    axes = ("--sweep", "replicas=1,2", "--chart", str(chart))
    for arguments in (("--x", "replicas", "--y", "goodput"), ("--context", "16")):
        said = called(*FEW, *axes, *arguments)
        assert said.exit_code == 0
        assert "No chart: no point has both figures" in said.output
    assert "No chart: no point has a result" in called(*FEW, *axes, "--model", "llama-3.1-405b").output
    assert not chart.exists()
    some = called(*FEW, "--sweep", "slo-ttft=default;1", "--chart", str(chart), "--x", "ttft-p50", "--y", "goodput")
    assert "1 of 2 points lack a figure of the chart" in some.output
    assert chart.exists()


def test_a_model_in_korean_is_on_the_chart(tmp_path: Path) -> None:
    model, chart = tmp_path / "모델", tmp_path / "chart.svg"
    model.mkdir()
    small = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128}
    small |= {"num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 256, "max_position_embeddings": 2048}
    (model / "config.json").write_text(json.dumps(small))
    assert called(*FEW, "--model", str(model), "--sweep", "replicas=1,2", "--chart", str(chart)).exit_code == 0
    assert "모델" in chart.read_text()


def test_a_run_without_calls_that_ended_has_an_empty_chart() -> None:
    assert run_chart(Samples(), "none")["vconcat"][0]["data"]["values"] == []


def test_the_timeline_counts_who_runs_and_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs: list[dict[str, Any]] = []
    monkeypatch.setattr("headway.cli.simulate_chart.write", lambda spec, _: specs.append(spec))
    found = answer("--requests", "40", "--rate", "1e6", "--max-running", "4", "--chart", str(tmp_path / "c.svg"))
    spread, timeline = (picture["data"]["values"] for picture in specs[0]["vconcat"])
    ttft = [row["s"] for row in spread if row["what"] == "TTFT"]
    assert ttft[19] == pytest.approx(found["ttft_s"]["p50"])
    running, waiting = (
        sum(row["requests"] for row in timeline if row["what"] == name) / 200 for name in ("running", "waiting")
    )
    assert waiting * found["duration_s"] == pytest.approx(40 * found["queue_s"]["mean"], rel=1e-6), "Little's law"
    assert (running + waiting) * found["duration_s"] == pytest.approx(40 * found["e2e_s"]["mean"], rel=1e-6)
    assert max(row["requests"] for row in timeline if row["what"] == "running") <= 4 + 1e-6
