"""`headway simulate` with replicas of every cut, and with the feed-forward on other chips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headway.cli import main

FEW = ("--requests", "6", "--input-tokens", "300", "--output-tokens", "12")
SPLIT = ("--model", "llama-3.1-70b", "--weights", "fp8", "--system", "hgx-b200")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *FEW, *arguments])


def answer(*arguments: str) -> dict[str, Any]:
    result = called(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


@pytest.mark.parametrize(
    ("arguments", "chips"),
    [
        (("--data", "4"), 4),
        (("--context-parallel", "2", "--tensor", "2"), 4),
        (("--pipeline", "2"), 2),
        (("--model", "deepseek-v3", "--weights", "fp8", "--system", "hgx-h200", "--data", "16", "--expert", "16"), 16),
        (("--pool", "data=2,pipeline=2", "--pool", "replicas=2,context-parallel=2"), 8),
    ],
)
def test_every_cut_runs_and_counts_its_chips(arguments: tuple[str, ...], chips: int) -> None:
    found = answer(*arguments)
    assert (found["finished"], found["chips"]) == (6, chips)
    assert found["output_tokens_per_s_per_chip"] == pytest.approx(found["output_tokens_per_s"] / chips)


def test_a_model_whose_file_names_no_context_limit_has_that_of_its_blocks(tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "intermediate_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert answer("--model", str(tmp_path))["finished"] == 6


def test_a_sequence_has_the_blocks_of_one_data_group() -> None:
    one, two = (("--num-blocks", str(20 * n), "--data", str(n)) for n in (1, 2))
    assert answer(*one)["finished"] == answer(*two)["finished"] == 6
    assert answer("--num-blocks", "20", "--data", "2")["refused"] == {"never_fits": 6}


def test_both_kinds_of_chips_of_a_split_replica_are_counted_paid_and_fed() -> None:
    mine = answer(*SPLIT, "--data", "2", "--ffn-system", "hgx-h200", "--ffn-chips", "4")
    assert (mine["chips"], mine["fleet"]) == (6, "1 x 2 b200-sxm + 4 h200-sxm")
    both = [answer("--model", "llama-3.1-8b", "--system", name) for name in ("hgx-b200", "hgx-h200")]
    watts, usd_per_s = (
        [found[field] / found[of] for found in both]
        for field, of in (("energy_j", "busy_s"), ("cost_usd", "duration_s"))
    )
    assert mine["energy_j"] == pytest.approx(mine["busy_s"] * (2 * watts[0] + 4 * watts[1]))
    assert mine["cost_usd"] == pytest.approx(mine["duration_s"] * (2 * usd_per_s[0] + 4 * usd_per_s[1]))


def test_a_prompt_much_longer_than_the_windows_is_served_however_few_run() -> None:
    long = ("--model", "gpt-oss-20b", "--input-tokens", "60000", "--requests", "2", "--max-running", "1")
    assert answer(*long, "--data", "2")["finished"] == answer(*long, "--chunk", "100")["finished"] == 2


def test_sram_chips_are_quick_for_one_and_gpus_give_more_a_chip(tmp_path: Path) -> None:
    """As docs/simulator.md tells it."""
    header = "item,figure,value,unit,status,source,date,note"
    (tmp_path / "chips.csv").write_text(f"{header}\nlp30,bf16_flops_per_s,615,TFLOP/s,rumour,half of fp8,2026-11,\n")
    many = ("--weights", "fp8", "--kv", "fp8", "--concurrency", "64", "--requests", "100")
    sram = ("--system", "lpx-256", "--catalog", str(tmp_path), "--tensor", "32", "--host-gap", "0.00064")
    lpu, gpu = (answer(*many, *system) for system in (sram, ("--system", "hgx-h100")))
    assert lpu["interactivity_tokens_per_s"] > 4 * gpu["interactivity_tokens_per_s"]
    assert gpu["output_tokens_per_s_per_chip"] > 4 * lpu["output_tokens_per_s_per_chip"]


def test_what_is_not_published_is_not_guessed_and_the_whole_domain_is_taken() -> None:
    found = answer(*SPLIT, "--data", "2", "--ffn-system", "lpx-256")
    assert (found["chips"], found["energy_j"], found["cost_usd"]) == (258, None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ffn-chips", "8"), "--ffn-chips needs --ffn-system"),
        ((*SPLIT, "--ffn-system", "lpx-256", "--ffn-chips", "100"), "--ffn-chips 126 would do"),
        ((*SPLIT, "--ffn-system", "hgx-h200", "--pipeline", "2"), "--data, --tensor and --context-parallel only"),
        (("--system", "hgx-h100", "--calibrated", "vllm", "--ffn-system", "hgx-h200"), "steps are at their floor"),
        (("--ffn-system", "nowhere"), "nowhere"),
        (("--data", "3", "--expert", "2"), "expert parallelism 2 does not divide"),
    ],
)
def test_a_mistake_gets_one_line(arguments: tuple[str, ...], message: str) -> None:
    result = called(*arguments)
    assert result.exit_code != 0
    assert message in result.output.splitlines()[-1]
