"""`headway plan`: numbers under keys that carry their unit, assumptions said, and one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headway.catalog import System
from headway.catalog.machine import write_machine
from headway.cli.plan import plan
from headway.cli.plan_text import si, size
from tests.arithmetic.models import catalog
from tests.machines import MODEL, machine


def ask(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(plan, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.output)
    return answer


def test_model() -> None:
    answer = ask("model", "deepseek-v3", "--weights", "fp8")
    assert answer["total_params"] == 671_026_419_200
    assert answer["kv_bytes_per_token"] == 70_272
    assert answer["active_gap"] == pytest.approx(0.015, abs=0.001)
    assert answer["params"]["experts"] / answer["total_params"] > 0.97
    assert answer["assumptions"]


def test_kv() -> None:
    answer = ask("kv", "llama-3.1-405b", "--batch", "32", "--chip", "h100-sxm")
    assert answer["kv_bytes_per_context"] == 516_096 * 131_072
    assert (answer["whole_chips_for_kv"], answer["whole_chips_for_kv_and_weights"]) == (28, 38)


def test_kv_by_system_or_chip() -> None:
    by_system = ask("kv", "qwen3-8b", "--system", "hgx-b200")
    assert by_system["chip"] == "b200-sxm"
    assert ask("kv", "qwen3-8b", "--chip", "b200-sxm") == by_system


def test_roofline() -> None:
    answer = ask("roofline", "llama-3.1-70b", "--system", "hgx-h100", "--tensor", "8", "--batch", "64")
    assert answer["chips"] == 8
    assert answer["ridge_flops_per_byte"] == pytest.approx(295, rel=0.005)
    assert answer["decode"]["bound"] == "memory_bandwidth"
    assert answer["prefill"]["bound"] == "compute"
    assert answer["decode"]["tokens_per_s"] == pytest.approx(64 * answer["interactivity_tokens_per_s"])
    assert answer["memory"]["max_batch"] > 64
    assert answer["fits"]
    assert answer["decode"]["calibrated"]["step_s"] > answer["decode"]["step_s"]
    assert answer["prefill"]["calibrated"]["step_s"] > answer["prefill"]["step_s"]
    assert ask("roofline", "qwen3-8b", "--engine", "none")["decode"]["calibrated"] is None
    assert {"moved_bytes", "intensity_flops_per_byte", "floor_s"} <= set(answer["decode"]["ops"][0])


def test_a_pipeline_keeps_each_stage_busy_with_its_part_of_the_batch() -> None:
    flat, piped = (
        ask("roofline", "llama-3.1-70b", "--batch", "64", "--pipeline", stages, "--tensor", "2")
        for stages in ("1", "4")
    )
    assert piped["chips"] == 4 * flat["chips"]
    assert piped["decode"]["tokens"] == flat["decode"]["tokens"] == 64
    assert piped["decode"]["flops_per_chip"] == pytest.approx(flat["decode"]["flops_per_chip"] / 4)
    assert piped["decode"]["tokens_per_s"] > 0.9 * flat["decode"]["tokens_per_s"]


def test_a_chip_of_ones_own(tmp_path: Path) -> None:
    rows = ["bertha-500,bf16_flops_per_s,128,TFLOP/s,rumour,my guess,2026-11,"]
    (tmp_path / "chips.csv").write_text("\n".join(["item,figure,value,unit,status,source,date,note", *rows]))
    answer = ask("roofline", "qwen3-8b", "--system", "bertha-500-node", "--catalog", str(tmp_path))
    assert answer["ridge_flops_per_byte"] == pytest.approx(128e12 / 546e9)


def test_a_config_on_disk(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "vocab_size": 100,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": 256,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ask("model", str(tmp_path))["kv_bytes_per_token"] == 2 * 2 * 64 * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["roofline", "qwen3-8b", "--engine", "mine"], "--engine 'mine' must be one of sglang, trtllm, vllm or none"),
        (["pareto", "qwen3-8b", "--engine", "mine"], "--engine 'mine' must be one of"),
        (["pareto", "qwen3-8b", "--system", "hgx-h100", "--system", "HGX_H100"], "'HGX_H100' is there twice"),
        (["best", "qwen3-8b", "--slo", "1", "--weights", "fp8", "--weights", "fp8"], "'fp8' is there twice"),
        (["decode", "qwen3-8b", "--batch", "4", "--batch", "4"], "'4' is there twice"),
        (["disaggregate", "qwen3-8b", "--slo", "4", "--slo", "4.0"], "'4.0' is there twice"),
        (
            ["memory", "qwen3-8b", "--chart", "a.svg", "--beside", "HGX_H100"],
            "--beside HGX_H100: the chart has it already",
        ),
        (["roofline", "qwen3-8b", "--chart", "a.svg", "--beside", "hgx-h100"], "the chart has it already"),
        (["kv", "qwen3-8b", "--chart", "a.svg", "--beside", "qwen3-8b"], "the chart has it already"),
        (["kv", "qwen3-8b", "--context", "128k"], "'128k' is not a whole number, all of its digits written"),
        (["receipt", "qwen3-8b", "--batch", "4", "--batch=8"], "--batch takes one value and is there 2 times"),
        (["best", "qwen3-8b", "--slo", "1", "--slo", "1", "--slo", "1"], "--slo takes one value and is there 3 times"),
        (["list", "--catalog", "docs", "--catalog", "./docs"], "'docs' is there twice"),
        (["afd", "qwen3-8b", "--engine", "none"], "No such option"),
        (["afd", "qwen3-8b", "--tensor", "2"], "No such option"),
        (["kv", "qwen3-8b", "--system", "hgx-h100", "--chip", "h100-sxm"], "--chip: not with --system"),
        (["kv", "qwen3-8b", "--beside", "llama-3.1-8b"], "--beside: only with --chart"),
        (
            ["journey", "qwen3-8b", "--round-trip-s", "1ms", "--distance-m", "5"],
            "--distance-m: not with --round-trip-s",
        ),
        (["roofline", "qwen3-8b", "--experts", "fp8"], "--experts fp8: qwen3-8b has no routed experts"),
        (["model", "/no/such/config.json"], "/no/such/config.json: there is no such file"),
        (["kv", "nothere.json"], "nothere.json: there is no such file"),
        (["kv", "./docs"], "./docs: there is no config.json in it"),
        (["kv", "Qwen/Qwen3-8B"], "model 'Qwen/Qwen3-8B' is not known; near: qwen3-8b"),
        (["fleet", "qwen3-8b", "--users", "10Q"], "'10Q' is not an amount: a number, alone or with one of k, M, G, T"),
        (["model", "lama"], "model 'lama' is not known; near: llama"),
        (["kv", "qwen3-8b", "--chip", "h1000"], "chip 'h1000' is not known; near: h100"),
        (["kv", "qwen3-8b", "--kv", "fp9"], "number format 'fp9' is not known"),
        (["kv", "qwen3-8b", "--context", "0"], "0 is not in the range"),
        (["roofline", "qwen3-8b", "--system", "dgx-1"], "system 'dgx-1' is not known"),
        (["roofline", "qwen3-8b", "--tensor", "3"], "tensor parallelism 3 does not divide 32 heads; possible: 1, 2"),
        (["roofline", "qwen3-8b", "--system", "bertha-500-node"], "bertha-500 has no published bf16_flops_per_s"),
        (["roofline", "qwen3-8b", "--system", "rtx-4090-node", "--tensor", "2"], "rtx-4090-node has none"),
        (["model", "qwen3-8b", "--catalog", "/no/such/place"], "there is no such directory"),
    ],
)
def test_mistakes_get_one_line(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(plan, arguments)
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert result.output.count("Error: ") == 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize("question", ["model", "kv", "roofline"])
def test_text_says_its_assumptions(question: str) -> None:
    result = CliRunner().invoke(plan, [question, "gpt-oss-120b", "--experts", "mxfp4"])
    assert result.exit_code == 0, result.output
    assert "\nassuming\n  - " in result.output


BOXES = [system for system in catalog().systems.values() if system.scaleup_chips > 1]


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box.name)
@pytest.mark.parametrize("written", ["{n} x {name}", "{n}x{name}", "2 {name}", "1x {name}"])
def test_a_count_of_boxes_is_asked_back(box: System, written: str) -> None:
    """`8 x hgx-h100` may mean 8 chips or 64: it is never guessed, and the line says what to write."""
    name = written.format(n=box.scaleup_chips, name=box.name)
    result = CliRunner().invoke(plan, ["decode", "qwen3-8b", "--system", name])
    assert result.exit_code == 1
    assert f"{box.name} is one system of {box.scaleup_chips} {box.chip.name}, not one chip" in result.output
    assert f"write --system {box.name}," in result.output


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box.name)
def test_a_chip_is_no_system(box: System) -> None:
    result = CliRunner().invoke(plan, ["decode", "qwen3-8b", "--system", box.chip.name])
    assert f"{box.chip.name!r} is a chip; the system that has it is --system" in result.output


def test_answers_count_chips_and_not_boxes() -> None:
    for question in (["best", "--slo", "20"], ["pareto", "--slo", "20"], ["receipt", "--tensor", "2"], ["roofline"]):
        text = CliRunner().invoke(plan, [*question[:1], "qwen3-8b", "--system", "hgx-b200", *question[1:]]).output
        assert " x b200-sxm (hgx-b200)" in text
        assert " x hgx-b200" not in text


def test_a_context_and_a_prompt_contradict() -> None:
    for more in (["--prompt", "10"], ["--cached", "0"], ["--output", "10"], ["--slo-ttft", "1"]):
        result = CliRunner().invoke(plan, ["best", "qwen3-8b", "--slo", "1", "--context", "100", *more])
        assert "--context is decode only" in result.output
        assert result.exit_code == 1
    assert ask("pareto", "qwen3-8b", "--context", "100")["prompt_tokens"] is None
    assert ask("pareto", "qwen3-8b")["prompt_tokens"] == 8192


def test_a_machine_file_is_a_system_to_search(tmp_path: Path) -> None:
    """It has one chip and no link: prompts are mixed in, and each step takes what the file's fit says."""
    path = tmp_path / "here.json"
    write_machine(machine(), path)
    asked = ["best", MODEL, "--system", str(path), "--prompt", "256", "--output", "64", "--weights", "fp32"]
    answer = ask(*asked, "--kv", "fp32", "--slo", "1", "--slo-ttft", "60s", "--count", "9")
    assert answer["cost_model"] == "calibrated"
    assert {found["kind"] for found in answer["best"]} == {"mixed"}
    floor = ask("pareto", *asked[1:], "--kv", "fp32", "--engine", "none")
    assert floor["cost_model"] == "floor"
    other = CliRunner().invoke(plan, [*asked, "--slo", "1", "--engine", "vllm"])
    assert f"--engine vllm: {path} has a fit of its own" in other.output
    alone = ask("pareto", *asked[1:], "--kv", "fp32")["frontier"][0]
    decode = ask("decode", MODEL, "--system", str(path), "--weights", "fp32", "--kv", "fp32", "--context", "288")
    assert alone["batch"] == 1
    assert alone["tpot_s"] == pytest.approx(decode["points"][0]["engine_step_s"])


def test_list_names_what_there_is() -> None:
    result = CliRunner().invoke(plan, ["list", "--json"])
    assert "deepseek-v3" in json.loads(result.output)["models"]
    assert "hgx-h100" in CliRunner().invoke(plan, ["list"]).output


def test_amounts_are_shown_and_read_with_prefixes() -> None:
    for question, default in (("fleet", "10M"), ("lifetime", "15T"), ("implied", "20G, 200G")):
        shown_help = CliRunner().invoke(plan, [question, "--help"], terminal_width=200, max_content_width=200).output
        assert f"[default: {default};" in shown_help
    shown = ask("lifetime", "qwen3-8b", "--training-tokens", "2.5T")
    assert shown == ask("lifetime", "qwen3-8b", "--training-tokens", "2500000000000")
    assert shown != ask("lifetime", "qwen3-8b")


_MIXED = {"model": (), "kv": (), "memory": (), "load": ("--tensor", "2"), "roofline": (), "decode": ("--tensor", "2")}


@pytest.mark.parametrize("question", _MIXED)
def test_experts_in_a_format_of_their_own_are_named(question: str) -> None:
    arguments = [question, "gpt-oss-120b", *_MIXED[question], "--experts", "mxfp4"]
    assert ask(*arguments)["weight_format"] == "bf16, experts mxfp4"
    assert "bf16, experts mxfp4" in CliRunner().invoke(plan, arguments).output
    alike = ask(question, "gpt-oss-120b", *_MIXED[question], "--weights", "mxfp4", "--experts", "mxfp4")
    assert alike["weight_format"] == "mxfp4"


def test_what_is_missing_of_memory_is_negative_in_both_units() -> None:
    shown = CliRunner().invoke(plan, ["memory", "gpt-oss-120b", "--experts", "mxfp4"]).output
    assert "unused                                     -3.005 GB (-2.799 GiB)" in shown


def test_attention_and_feed_forward_take_a_format_that_both_have() -> None:
    chosen = ask("afd", "llama-3.1-70b")
    named = ask("afd", "llama-3.1-70b", "--weights", "fp8")
    assert (chosen["weight_format"], chosen["step_s"]) == ("fp8", named["step_s"])
    said = "weights in fp8, the widest format that both chips have a rate for: --weights says another"
    assert said in chosen["assumptions"]
    assert said not in named["assumptions"]
    alike = ask("afd", "llama-3.1-70b", "--feed-forward-system", "hgx-h200", "--feed-forward-chips", "8")
    assert alike["weight_format"] == "bf16"


def test_what_is_published_of_a_model_is_found_as_the_model_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_name, folded = (ask("model", name) for name in ("gpt-oss-120b", "GPT OSS_120b"))
    assert by_name["published_total_params"] == folded["published_total_params"] > 1e11
    (tmp_path / "gpt-oss-120b").mkdir()
    config = {**catalog().config("smollm2-135m")}
    (tmp_path / "gpt-oss-120b" / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    own = ask("model", "gpt-oss-120b")
    assert (own["published_total_params"], own["source"], own["family"]) == (None, None, "llama")


def test_sizes_show_both_kinds_of_prefix() -> None:
    assert size(40 * 2**30) == "42.95 GB (40 GiB)"
    assert size(1000) == "1000 B"
    assert size(-40 * 2**30) == "-42.95 GB (-40 GiB)"
    assert size(-1000) == "-1000 B"
    assert (si(1.5e-3, "s"), si(0, "s"), si(12_345, "B")) == ("1.5 ms", "0 s", "12.35 kB")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.94, "999.9 s"),
        (1_182.3, "1,182 s (19.7 min)"),
        (7_199, "7,199 s (120 min)"),
        (7_200, "7,200 s (2 h)"),
        (294_300, "294,300 s (3.41 d)"),
        (-5_000, "-5,000 s (-83.3 min)"),
        (9e8, "900,000,000 s (10,400 d)"),
    ],
)
def test_long_times_are_no_kiloseconds(value: float, text: str) -> None:
    assert si(value, "s") == text


def test_a_configuration_with_a_mistake_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": "64"}')
    for arguments in (["kv", str(tmp_path)], ["kv", "qwen3-8b", "--beside", str(tmp_path), "--chart", "x.svg"]):
        result = CliRunner().invoke(plan, arguments)
        assert result.exit_code == 1
        assert result.output.startswith(f"Error: {tmp_path}: num_hidden_layers must be a positive integer, not None")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("llama-3.1-8b", {"full": (32, 2 * 8 * 128 * 2 * 10_000)}),
        ("gemma-3-27b", {"window(1024)": (52, 2 * 16 * 128 * 2 * 1024), "full": (10, 2 * 16 * 128 * 2 * 10_000)}),
        ("qwen3-next-80b-a3b", {"linear": (36, 2_146_304), "full": (12, 2 * 2 * 256 * 2 * 10_000)}),
        ("deepseek-v3.2", {"latent and index": (61, (512 + 64 + 128) * 2 * 10_000)}),
        ("glm-5.3", {"latent and index": (21, (512 + 64 + 128) * 2 * 10_000), "latent": (57, 576 * 2 * 10_000)}),
    ],
)
def test_cache_by_layer_adds_up(name: str, kinds: dict[str, tuple[int, int]]) -> None:
    report = ask("kv", name, "--context", "10000")
    assert {row["kind"]: (row["layers"], row["kv_bytes"]) for row in report["by_layer"]} == kinds
    assert sum(layers * size for layers, size in kinds.values()) == report["kv_bytes_per_context"]
    text = CliRunner().invoke(plan, ["kv", name, "--context", "10000"]).output
    assert all((f"  {layers} x {kind}  " in text) == (len(kinds) > 1) for kind, (layers, _) in kinds.items())
