"""Every question of `headway plan`, as a person asks it: keys with units, assumptions, one line for a mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headway.cli import main
from headway.cli.plan_show import quantity

EIGHT = ["llama-3.1-70b", "--tensor", "8", "--weights", "fp8"]
QUESTIONS = {
    "decode": [*EIGHT, "--context", "1024", "--context", "8192"],
    "limits": EIGHT,
    "memory": EIGHT,
    "energy": EIGHT,
    "speculation": EIGHT,
    "disaggregate": EIGHT,
    "afd": ["llama-3.1-70b", "--attention-chips", "8"],
    "prefix": EIGHT,
    "load": EIGHT,
    "journey": [*EIGHT, "--distance-m", "8.4e6"],
    "price": [*EIGHT, "--price", "deepseek-v4-pro", "--purchase-usd", "40000"],
    "fast-mode": ["llama-3.1-70b", "--weights", "fp8", "--system", "hgx-b200", "--times", "2"],
    "implied": ["gpt-6-sol"],
    "fleet": EIGHT,
    "lifetime": ["deepseek-v3"],
}
_UNITS = "s bytes tokens flops j wh w usd params chips batch batches days drafts devices users requests transceivers"
UNITS = {*_UNITS.split(), "replicas"}
"""Words of a key that say a unit, or what is counted."""
_PLAIN = "year mfu margin utilisation acceptance total tensor pipeline expert data context low high"
PLAIN = {*_PLAIN.split()}
"""Shares, cuts of a model, a year's number, and the ends of a range whose unit stands beside it."""
RATIO = re.compile("_over_|share|^gain|speed_up|multiplier|steps_lost")


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def numbers(answer: Any, key: str = "") -> Iterator[str]:
    """Keys of every number in it."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            yield from numbers(value, key if key.endswith("_by_part") else name)
    elif isinstance(answer, list):
        for value in answer:
            yield from numbers(value, key)
    elif isinstance(answer, int | float) and not isinstance(answer, bool):
        yield key


def test_every_question_is_asked_here() -> None:
    from headway.cli import plan_money, plan_moves, plan_steps

    asked = {c.name for c in (*plan_steps.COMMANDS, *plan_moves.COMMANDS, *plan_money.COMMANDS)}
    assert asked == set(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question(question: str) -> None:
    result = ask(question, *QUESTIONS[question], "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["assumptions"]
    assert answer["formulas"]
    keys = set(numbers(answer))
    assert keys
    assert not {key for key in keys if not UNITS & set(key.split("_")) and key not in PLAIN and not RATIO.search(key)}
    text = ask(question, *QUESTIONS[question]).stdout
    for line in (*answer["assumptions"], *answer["formulas"]):
        assert f"  - {line}" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["decode", "lama"], "model 'lama' is not known; near: llama"),
        (["limits", "qwen3-8b", "--system", "dgx"], "system 'dgx' is not known; near: "),
        (["memory", "qwen3-8b", "--tensor", "7"], "tensor parallelism 7 does not divide 32 heads; possible: 1, 2, 4"),
        (["memory", "qwen3-8b", "--chart", "a.svg", "--beside", "nothing"], "system 'nothing' is not known"),
        (["journey", "llama-3.1-70b"], "needs 154.5 GB a chip, and 72 GB of each h100-sxm are usable: --tensor 4 fits"),
        (["price", "kimi-k3", "--system", "rtx-4090-node"], "21.6 GB of each rtx-4090 are usable: try narrower"),
        (["price", "qwen3-8b", "--system", "m3-ultra-node"], "no rent of m3-ultra is known: give --usd-per-chip-hour"),
        (["price", "qwen3-8b", "--price", "gpt-9"], "priced model 'gpt-9' is not known; near: gpt-"),
        (["price", "qwen3-8b", "--price", "gpt-5", "--input-usd", "1"], "contradict each other"),
        (["price", "qwen3-8b", "--input-usd", "1"], "--input-usd and --output-usd are needed together"),
        (["price", "qwen3-8b", "--mfu", "0"], "0.0 is not in the range"),
        (["prefix", "qwen3-8b", "--system", "bertha-500-node"], "bertha-500 has no published bf16_flops_per_s"),
        (["load", "llama-3.1-405b", "--system", "bertha-500-node"], "bertha-500 has no published bf16_flops_per_s"),
        (["price", "llama-3.1-405b", "--system", "rtx-4090-node", "--tensor", "4"], "needs a scale-out link"),
        (["model", "~nobody-here/config.json"], "there is no such file"),
        (["model", "~nobody-here/model"], "model '~nobody-here/model' is not known"),
        (["model", "a" * 5000], "is not known"),
        (["memory", "qwen3-8b", "--system", "~nobody-here/machine.json"], "No such file or directory"),
        (["memory", "qwen3-8b", "--catalog", "a" * 5000], "there is no such directory"),
        (["memory", "qwen3-8b", "--chart", "a.svg", "--beside", "a" * 5000], "is not known"),
        (["disaggregate", "qwen3-8b", "--prefill-tensor", "5"], "tensor parallelism 5 does not divide 32 heads"),
        (["disaggregate", "qwen3-8b", "--cached", "8192"], "cached tokens (8192) must be fewer"),
        (["journey", "qwen3-8b", "--output", "2000000"], "output tokens must be between 1 and 1000000, not 2000000"),
        (["fast-mode", "qwen3-8b", "--times", "nan"], "'nan' is not a number"),
        (["fleet", "qwen3-8b", "--growth", "inf"], "inf is not in the range"),
        (["price", "qwen3-8b", "--usd-per-chip-hour", "0"], "0.0 is not in the range"),
        (["pareto", "qwen3-8b", "--slo", "nan"], "'nan' is not a number"),
        (["afd", "llama-3.1-70b", "--weights", "bf16"], "lp30 has no published bf16_flops_per_s (it has: fp8)"),
        (
            ["afd", *EIGHT[:1], "--weights", "fp8", "--attention-chips", "1"],
            "attention needs 188.1 GB on each h100-sxm",
        ),
        (["implied", "gpt"], "priced model 'gpt' is not known; near: gpt-"),
        (["fast-mode", "qwen3-8b", "--slo", "1e6"], "nothing gives every user 1e+06 tokens/s"),
        (["fleet", "qwen3-8b", "--years", "99"], "99 is not in the range 0<=x<=30"),
        (["speculation", "qwen3-8b", "--acceptance", "1.5"], "1.5 is not in the range 0<=x<=1"),
        (["journey", "qwen3-8b", "--chart", "a.pdf"], "'a.pdf' must end in .html or .svg or .png"),
        (["kv", "qwen3-8b", "--chart", "/no/such/place/a.svg"], "there is no directory /no/such/place"),
    ],
)
def test_a_mistake_gets_one_line_that_says_what_would_work(arguments: list[str], words: str) -> None:
    result = ask(*arguments)
    assert result.exit_code in (1, 2)
    assert words in result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "missing", ["hidden_size", "vocab_size", "num_hidden_layers", "intermediate_size", "model_type"]
)
def test_a_config_without_a_key_names_it(missing: str, tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": 64,
        "vocab_size": 100,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": 256,
    }
    del config[missing]
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = ask("decode", str(tmp_path))
    assert result.exit_code == 1
    assert missing in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 10_000, '{"model_type": "llama", "hidden_size": NaN}'])
def test_a_config_that_is_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    result = ask("limits", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


def test_a_tier_of_ones_own(tmp_path: Path) -> None:
    header = "item,figure,value,unit,status,source,date,note"
    (tmp_path / "tiers.csv").write_text(f"{header}\nssd,read_bytes_per_s,26,GB/s,measured,two drives,2026-11,\n")
    found = {}
    for extra in ([], ["--catalog", str(tmp_path)]):
        answer = json.loads(ask("load", *EIGHT, "--json", *extra).stdout)
        found[bool(extra)] = next(tier["load_s"] for tier in answer["tiers"] if tier["tier"] == "ssd")
    assert found[False] - 1e-4 == pytest.approx(2 * (found[True] - 1e-4))
    (tmp_path / "tiers.csv").write_text(f"{header}\nssd,read_bytes_per_s,26,Gbit,measured,two drives,2026-11,\n")
    assert "unit 'Gbit' does not fit" in ask("load", *EIGHT, "--catalog", str(tmp_path)).stderr


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("step_s", 1.5e-3, "1.5 ms"),
        ("kv_bytes", 2**30, "1.074 GB (1 GiB)"),
        ("read_bytes_per_s", 5e10, "50 GB/s"),
        ("power_w", 1e6, "1 MW"),
        ("usd_per_request", 0.00123, "0.00123 USD"),
        ("purchase_usd", 40_000.0, "40 kUSD"),
        ("usd_per_hour", 9999.6, "10 kUSD"),
        ("users", 2.7e8, "270 M"),
        ("users", 9999.0, "9999"),
        ("chips", 32_288, "32,288"),
        ("active_params", 37_500_000_000, "37.5 G"),
        ("interactivity_tokens_per_s", 123.456, "123.5"),
        ("fits", True, "yes"),
        ("payback_days", None, "none"),
        ("bound", "memory_bandwidth", "memory bandwidth"),
        ("unused_bytes", -1e9, "-1 GB (-953.7 MiB)"),
    ],
)
def test_quantities_are_shown_in_the_unit_of_their_key(name: str, value: Any, text: str) -> None:
    assert quantity(name, value) == text
