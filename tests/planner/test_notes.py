"""What a report says of the model's file, the lengths asked about and the formats, beside its own assumptions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli.plan import plan
from headway.cli.simulate import simulate
from tests.arithmetic.models import catalog

LONG = "{asked} tokens are more than {name} is made for ({most}): counted as if it were"
QUANTISED = (
    "the model's file says that its weights are quantised (quant_method mxfp4): they are counted as it says, in bf16, "
    "experts mxfp4; --weights and --experts say another"
)


def answer(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(plan, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    text = CliRunner().invoke(plan, arguments).output
    for line in found["assumptions"]:
        assert f"  - {line}\n" in text
    return found


def said(*arguments: str) -> list[str]:
    lines: list[str] = answer(*arguments)["assumptions"]
    assert len(set(lines)) == len(lines)
    return lines


@pytest.mark.parametrize(
    ("arguments", "name", "asked", "most"),
    [
        (["kv", "llama-3.1-8b", "--context", "1048576"], "llama-3.1-8b", "1,048,576", "131,072"),
        (["best", "smollm2-135m", "--slo", "100"], "smollm2-135m", "9,216", "8,192"),
        (["pareto", "smollm2-135m", "--context", "8193"], "smollm2-135m", "8,193", "8,192"),
        (["fast-mode", "smollm2-135m", "--prompt", "8192", "--output", "1"], "smollm2-135m", "8,193", "8,192"),
        (["decode", "smollm2-135m", "--context", "9000", "--context", "100"], "smollm2-135m", "9,000", "8,192"),
        (["prefix", "llama-3.1-8b", "--tokens", "131073"], "llama-3.1-8b", "131,073", "131,072"),
        (["receipt", "smollm2-135m", "--prompt", "8000", "--output", "193"], "smollm2-135m", "8,193", "8,192"),
        (["energy", "smollm2-135m", "--context", "8193"], "smollm2-135m", "8,193", "8,192"),
    ],
)
def test_more_tokens_than_the_model_is_made_for(arguments: list[str], name: str, asked: str, most: str) -> None:
    assert LONG.format(asked=asked, name=name, most=most) in said(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["kv", "llama-3.1-8b", "--context", "131072"],
        ["best", "smollm2-135m", "--slo", "100", "--prompt", "8000", "--output", "192"],
        ["receipt", "smollm2-135m", "--prompt", "8000", "--output", "192"],
        ["model", "smollm2-135m"],
    ],
)
def test_as_many_as_it_is_made_for_are_not_mentioned(arguments: list[str]) -> None:
    assert not [line for line in said(*arguments) if "is made for" in line]


@pytest.mark.parametrize("question", ["model", "kv", "memory", "decode", "limits", "pareto"])
def test_weights_are_in_the_format_that_the_file_says_where_none_is_named(question: str) -> None:
    found = answer(question, "gpt-oss-20b")
    same = answer(question, "gpt-oss-20b", "--weights", "bf16", "--experts", "mxfp4")
    assert QUANTISED in found["assumptions"]
    assert {**found, "assumptions": [line for line in found["assumptions"] if line != QUANTISED]} == same
    assert not [line for line in said(question, "gpt-oss-20b", "--weights", "bf16") if "quantised" in line]
    assert not [line for line in said(question, "qwen3-8b") if "quantised" in line]
    if question not in ("limits", "pareto"):
        other = answer(question, "gpt-oss-20b", "--experts", "nvfp4", "--kv", "fp8")
        assert other.get("weight_format", "bf16, experts nvfp4") == "bf16, experts nvfp4"


KV = "the cache is counted in fp8, as the model's file says; --kv says another"


@pytest.fixture
def fp8_cache(tmp_path: Path) -> str:
    """A model in bf16 whose file has scales for a cache in fp8."""
    section = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    config = catalog().config("llama-3.1-8b") | {"quantization_config": section}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return str(tmp_path)


@pytest.mark.parametrize("question", ["kv", "memory", "decode", "best --slo 20 --max-chips 1", "pareto --max-chips 1"])
def test_the_cache_is_in_the_format_that_the_file_says_where_none_is_named(question: str, fp8_cache: str) -> None:
    asked = [*question.split(), fp8_cache, "--weights", "bf16"]
    found = answer(*asked)
    assert KV in found["assumptions"]
    same = answer(*asked, "--kv", "fp8")
    assert found | {"assumptions": [line for line in found["assumptions"] if line != KV]} == same
    assert answer(*asked, "--kv", "bf16")["assumptions"] == same["assumptions"]
    assert KV not in said(*question.split(), "llama-3.1-8b")


def test_a_simulation_takes_it_too(fp8_cache: str) -> None:
    def simulated(*more: str) -> dict[str, Any]:
        asked = ["--model", fp8_cache, "--weights", "bf16", "--requests", "3", "--json", *more]
        run = CliRunner().invoke(simulate, asked)
        assert run.exit_code == 0, run.output
        found: dict[str, Any] = json.loads(run.stdout)
        return found

    found, same = simulated(), simulated("--kv", "fp8")
    assert (found.pop("assumptions"), same.pop("assumptions")) == ([KV], [])
    assert found == same
    assert found["kv"][0]["mean_used_bytes"] < simulated("--kv", "bf16")["kv"][0]["mean_used_bytes"]


def test_a_method_that_is_not_known_is_said() -> None:
    (line,) = [line for line in said("kv", "kimi-k3") if "quantised" in line]
    assert "(quant_method compressed-tensors), not in which format that is known here; they are counted in bf16" in line


def test_a_quantised_section_of_a_larger_file_counts_too(tmp_path: Path) -> None:
    text = {"model_type": "gemma3_text", "quantization_config": {"quant_method": "compressed-tensors"}}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    assert [line for line in said("kv", str(tmp_path)) if "(quant_method compressed-tensors)" in line]


def test_states_and_narrow_arithmetic_are_said() -> None:
    state = "the state of linear layers is held in fp32, whatever the format of the cache"
    assert state in said("kv", "qwen3-next-80b-a3b", "--kv", "fp8")
    assert state not in said("kv", "qwen3-8b", "--kv", "fp8")
    narrow = "{} is multiplied at the chip's 4-bit rate, as if activations had 4 bits too (W4A4)"
    lines = said("decode", "gpt-oss-20b", "--experts", "nvfp4")
    assert [line for line in lines if line.startswith(narrow.format("nvfp4"))]
    both = said("pareto", "qwen3-8b", "--weights", "mxfp4", "--weights", "nvfp4", "--system", "hgx-b200")
    assert [line for line in both if line.startswith(narrow.format("mxfp4, nvfp4"))]
    for wide in ("fp8", "int4", "bf16"):
        assert not [line for line in said("decode", "qwen3-8b", "--weights", wide) if "W4A4" in line]


def test_a_search_takes_experts_in_a_format_of_their_own() -> None:
    arguments = ["gpt-oss-120b", "--experts", "mxfp4", "--system", "hgx-b200", "--context", "8192", "--max-chips", "1"]
    arguments += ["--engine", "none"]
    best = answer("best", *arguments, "--slo", "10")["best"][0]
    assert best["weight_format"] == "bf16, experts mxfp4"
    one = answer("decode", *arguments[:5], "--engine", "none", "--batch", str(best["batch"]))["points"][0]
    assert one["interactivity_tokens_per_s"] == pytest.approx(best["interactivity_tokens_per_s"])
    assert answer("pareto", *arguments)["frontier"][0]["weight_format"] == "bf16, experts mxfp4"
    fast = answer("fast-mode", *arguments, "--slo", "10", "--times", "2")
    assert fast["base"]["weight_format"] == "bf16, experts mxfp4"
    refused = CliRunner().invoke(plan, ["best", "qwen3-8b", "--slo", "1", "--experts", "mxfp4"])
    assert refused.exit_code == 2
    assert "qwen3-8b has no routed experts" in refused.output


def test_a_format_that_a_question_chose_is_the_one_said() -> None:
    many = ["--attention-chips", "16", "--feed-forward-chips", "2048", "--system", "gb300-nvl72"]
    assert any("they are counted as it says, in fp8" in line for line in said("afd", "deepseek-v3", *many))
    assert any("they are counted in fp8 all the same" in line for line in said("afd", "gpt-oss-120b", *many))


@pytest.mark.parametrize("question", ["price", "fleet", "journey", "speculation", "decode", "receipt", "best --slo 20"])
def test_who_uses_a_fit_says_how_far_it_is_off(question: str) -> None:
    arguments = [*question.split(), "llama-3.1-8b", "--weights", "bf16"]
    assert sum("h100-sxm: TPOT is off by" in line for line in said(*arguments)) == 1
    assert not any("is off by" in line for line in said(*arguments, "--engine", "none"))


def test_a_search_by_floors_tells_no_fits_error() -> None:
    systems = ("--system", "hgx-h100", "--system", "tpu-v6e-node")
    assert not any("is off by" in line for line in said("best", "llama-3.1-8b", "--slo", "20", *systems))


def test_errors_stand_in_the_order_asked() -> None:
    chips = ["h200-sxm", "b300-sxm", "h100-sxm", "gb200", "b200-sxm"]
    systems = ["hgx-h200", "hgx-b300", "hgx-h100", "gb200-nvl72", "hgx-b200"]
    asked = [part for name in systems for part in ("--system", name)]
    lines = said("best", "llama-3.1-8b", "--weights", "bf16", "--slo", "20", *asked)
    assert [re.split(r":| was", line)[0] for line in lines if "TPOT is off by" in line] == chips
