"""`--system FILE`: step times, limits and model of the machine file; what is asked for beside it wins."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import precision
from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.step_shape import rows
from headway.arithmetic.work import step_work
from headway.catalog.machine import Peaks, machine_fit, machine_system, write_machine
from headway.cli import main
from headway.roofline import calibrated_cost, coefficients
from headway.simulator.simulation import Setup
from tests.machines import MODEL, machine

ONE = ("--requests", "1", "--input-tokens", "100", "--output-tokens", "21")


@pytest.fixture
def path(tmp_path: Path) -> str:
    write_machine(machine(), tmp_path / "m.json")
    return str(tmp_path / "m.json")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def answer(*arguments: str) -> dict[str, Any]:
    result = called(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def step_s(start: int, count: int) -> float:
    """By the cost model, from the file's figures."""
    m = machine()
    model = shape_from_config(m.config)
    shape = rows(spans(model), start, count)
    work = step_work(model, shape, precision("fp32", "fp32"))
    return float(calibrated_cost(work, shape, machine_system("m", m), coefficients(machine_fit(m))).step_s)


def test_models_and_step_times_are_those_of_all_pools(path: str) -> None:
    """Which need not be those of the main options."""
    pools = (f"system={path}", "system=hgx-h100,calibrated=vllm", "system=hgx-h100,model=qwen3-8b")
    found = answer("simulate", *ONE, *(word for pool in pools for word in ("--pool", pool)))
    assert found["model"] == "Small, llama-3.1-8b, qwen3-8b"
    measured, *others = found["cost_model"].split(" and ")
    assert measured.startswith("measured on")
    assert others == ["calibrated to vllm", "floor"]


def test_fewer_blocks_have_a_shorter_context(path: str) -> None:
    assert answer("simulate", "--system", path, "--num-blocks", "20", *ONE)["finished"] == 1
    refused = called("simulate", "--system", path, "--num-blocks", "20", "--context", "8192", *ONE)
    assert "--context must be at most the 320 tokens" in refused.output


def test_one_request_takes_the_steps_of_the_fit(path: str) -> None:
    found = answer("simulate", "--system", path, *ONE)
    decodes = [step_s(start, 1) for start in range(100, 120)]
    assert found["ttft_s"]["mean"] == pytest.approx(step_s(0, 100), rel=1e-3)
    assert found["tpot_s"]["mean"] == pytest.approx(sum(decodes) / 20, rel=1e-3)
    assert found["model"] == "Small"
    assert "measured on 2026-11-29 with Small in float32, off by 3% (median)" in found["cost_model"]
    assert "EXTRAPOLATED" not in found["cost_model"]


def test_steps_are_those_that_are_served(path: str) -> None:
    """Chunks of 512 tokens, as the file says: a prompt of 1200 takes three steps, unless more is asked for."""
    prompt = ("--requests", "1", "--input-tokens", "1200", "--output-tokens", "1")
    assert answer("simulate", "--system", path, *prompt)["steps"] == 3
    assert answer("simulate", "--system", path, *prompt, "--chunk", "2048")["steps"] == 1


@pytest.mark.parametrize("other", [("--model", "smollm2-1.7b"), ("--weights", "bf16"), ("--kv", "bf16")])
def test_another_model_or_format_is_said_to_be_extrapolated(path: str, other: tuple[str, str]) -> None:
    found = answer("simulate", "--system", path, *ONE, *other, "--num-blocks", "500")
    assert "EXTRAPOLATED" in found["cost_model"]


def test_the_same_model_by_its_name_is_no_extrapolation(path: str) -> None:
    assert "EXTRAPOLATED" not in answer("simulate", "--system", path, *ONE, "--model", MODEL)["cost_model"]


def test_power_and_price_are_used_where_someone_knows_them(path: str) -> None:
    write_machine(
        machine(
            peaks=Peaks(memory_bytes=16e9, memory_bytes_per_s=2e10, flops_per_s=2e11, power_w=100.0, usd_per_hour=3.6)
        ),
        Path(path),
    )
    found = answer("simulate", "--system", path, *ONE)
    assert found["energy_j"] == pytest.approx(100 * found["busy_s"])
    assert found["cost_usd"] == pytest.approx(1e-3 * found["duration_s"])


def test_mistakes_are_one_line(path: str, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"version": 1}')
    for arguments, why in (
        (("--system", str(tmp_path / "absent.json")), "No such file"),
        (("--system", str(tmp_path / "broken.json")), "missing required field"),
        (("--system", path, "--calibrated", "vllm"), "has a fit of its own"),
        (("--system", path, "--tensor", "3"), ""),
    ):
        result = called("simulate", *arguments, *ONE)
        assert result.exit_code == 1
        assert why in result.output
        assert result.output.count("\n") == 1


def test_the_planner_takes_it_too(path: str) -> None:
    arguments = ("--system", path, "--weights", "fp32", "--kv", "fp32", "--context", "120", "--batch", "1")
    found = answer("plan", "roofline", MODEL, *arguments)
    fitted = found["decode"]["calibrated"]
    assert fitted["step_s"] == pytest.approx(step_s(119, 1), rel=1e-3)
    assert fitted["held_out_median_error"] == 0.03
    assert "headway calibrate" in fitted["source"]


def test_the_setup_of_a_file_has_a_step_time_without_more_host_time() -> None:
    m = machine()
    setup = Setup(
        shape_from_config(m.config),
        machine_system("m", m),
        precision("fp32", "fp32"),
        calibration=machine_fit(m),
        max_step_tokens=512,
    )
    none = replace(setup, calibration={**machine_fit(m), "host_s": replace(machine_fit(m)["host_s"], value=0.0)})
    zero = [0]
    assert setup.step_time().one((1, 1, 1, zero, zero, zero)).host_ns == 320_000
    assert none.step_time().one((1, 1, 1, zero, zero, zero)).host_ns == 20_000
