"""The receipt of one request adds up, and says the floor and the fitted number side by side."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from headway.arithmetic.layers import ShapeError
from headway.cli.plan import plan
from headway.planner.price import Workload
from headway.planner.request import RequestReceipt, request_receipt
from tests.planner.deployments import deployed


def receipt(prompt: int = 1000, cached: int = 0, output: int = 100, batch: int = 32) -> RequestReceipt:
    where = deployed("llama-3.1-8b", weights="bf16", fitted=True, tensor=1)
    return request_receipt(where, Workload(prompt, cached, output, batch), 1.5)


def test_it_adds_up() -> None:
    cost = receipt().floor
    assert cost.prefill_j == pytest.approx(700 * cost.prefill_s)
    assert cost.decode_j == pytest.approx(700 * cost.decode_s / 32)
    assert cost.wall_wh == pytest.approx(1.5 * (cost.prefill_j + cost.decode_j) / 3600)
    assert cost.usd == pytest.approx((cost.prefill_s + cost.decode_s / 32) * 1.30 / 3600)
    assert cost.tpot_s * 99 == pytest.approx(cost.decode_s)


def test_measured_energy_lies_near_the_fitted_number() -> None:
    """0.119 J a token was measured for this model on one H100 at batch 64."""
    report = receipt(prompt=250, output=870, batch=64)
    assert report.calibrated is not None
    assert report.floor.decode_j is not None
    assert report.calibrated.decode_j is not None
    assert report.floor.decode_j / 870 < 0.119
    assert report.calibrated.decode_j / 870 == pytest.approx(0.119, rel=0.2)


def test_the_fitted_prompt_is_no_faster_than_its_floor() -> None:
    report = receipt(prompt=8000)
    assert report.calibrated is not None
    assert 1.1 < report.calibrated.prefill_s / report.floor.prefill_s < 5


def test_a_cached_prefix_saves_its_prompt_time() -> None:
    assert receipt(prompt=8000, cached=7000).floor.prefill_s < 0.25 * receipt(prompt=8000).floor.prefill_s
    assert receipt(prompt=8000, cached=7000).floor.decode_s == receipt(prompt=8000).floor.decode_s


def test_one_token_needs_no_decode_step() -> None:
    assert (receipt(output=1).floor.decode_s, receipt(output=1).floor.tpot_s) == (0, 0)


def test_what_cannot_be() -> None:
    with pytest.raises(ShapeError, match=r"cached tokens \(10\) must be fewer than the prompt's \(10\)"):
        receipt(prompt=10, cached=10)
    with pytest.raises(ShapeError, match="output tokens must be between 1 and 1000000"):
        receipt(output=2_000_000)


def test_the_command() -> None:
    result = CliRunner().invoke(
        plan, ["receipt", "deepseek-v3", "--weights", "fp8", "--system", "hgx-b200", "--tensor", "8", "--json"]
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["chips"] == 8
    assert answer["floor"]["wall_wh"] < answer["calibrated"]["wall_wh"]
    text = CliRunner().invoke(plan, ["receipt", "qwen3-8b", "--system", "tpu-v5e-node", "--tensor", "2"])
    assert "a real engine: no fit of vllm on tpu-v5e" in text.output
    assert "2 x tpu-v5e (tpu-v5e-node)" in text.output
    none = CliRunner().invoke(plan, ["receipt", "qwen3-8b", "--engine", "none"])
    assert "a real engine: none was asked for (--engine none)" in none.output
    assert "unknown" in text.output
    wrong = CliRunner().invoke(plan, ["receipt", "qwen3-8b", "--prompt", "10", "--cached", "10"])
    assert "must be fewer" in wrong.output


def test_a_rent_that_is_given_counts() -> None:
    work, unknown = Workload(1000, 0, 100, 4), deployed("llama-3.1-8b", "m3-ultra-node", tensor=1)
    assert request_receipt(unknown, work).floor.usd is None
    report = request_receipt(unknown, work, usd_per_chip_hour=0.5)
    assert report.usd_per_chip_hour == 0.5
    assert report.floor.usd == pytest.approx((report.floor.prefill_s + report.floor.decode_s / 4) * 0.5 / 3600)
    known = deployed("llama-3.1-8b", fitted=True, tensor=1)
    twice = request_receipt(known, work, usd_per_chip_hour=2 * 1.30)
    assert twice.calibrated is not None
    assert twice.calibrated.usd == pytest.approx(2 * (request_receipt(known, work).calibrated or twice.calibrated).usd)


def test_what_is_only_announced_is_said() -> None:
    work = Workload(100, 0, 10, 1)
    rubin = request_receipt(deployed("llama-3.1-8b", "vr200-nvl72", tensor=1), work)
    assert any(line.startswith("hbm_bytes_per_s 22000 GB/s: announced") for line in rubin.uncertain)
    h100 = request_receipt(deployed("llama-3.1-8b", tensor=1), work)
    assert [line.split()[0] for line in h100.uncertain] == ["scaleup_latency_s", "scaleout_latency_s"]
