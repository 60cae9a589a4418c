"""`headway simulate --replay LOG` with something changed: on which chips, at what price, and how far a model is off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from headway.catalog import load_catalog
from headway.catalog.machine import Peaks, write_machine
from headway.cli import main
from tests.machines import machine

from .test_what_if import logged

SMALL = ("--model", "smollm2-135m")
"""Of nine heads."""
H100_W = 700


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(logged(tmp_path))


@pytest.fixture
def measured(tmp_path: Path) -> str:
    """A machine file with a price."""
    peaks = Peaks(memory_bytes=16e9, memory_bytes_per_s=2e10, flops_per_s=2e11, power_w=100.0, usd_per_hour=3.6)
    write_machine(machine(peaks=peaks), tmp_path / "m.json")
    return str(tmp_path / "m.json")


def called(log: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", "--replay", log, *arguments])


def answer(log: str, *arguments: str) -> dict[str, Any]:
    result = called(log, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_another_system(log: str) -> None:
    found = answer(log, "--with", "system=hgx-h100", *SMALL)
    assert found["changed"]["tpot_s"]["mean"] < found["simulated"]["tpot_s"]["mean"]
    assert len(found["by_request"]) == found["requests"] == 40
    assert found["logged"]["energy_j"] is None
    assert found["changed"]["energy_j"] == pytest.approx(H100_W * found["changed"]["service_s"])
    assert "1 x 1 h100-sxm" in found["changed_on"]


def test_text(log: str) -> None:
    text = called(log, "--with", "chunk=16").output
    assert "40 requests" in text
    assert "TTFT" in text
    assert "difference: changed less simulated" in text
    alone = CliRunner().invoke(main, ["simulate", "--with", "chunk=16"])
    assert alone.exit_code == 2
    assert "--with: only with --replay LOG" in alone.output


def test_requests_that_get_no_whole_answer_any_more_are_counted(log: str) -> None:
    found = answer(log, "--with", "blocks=20")
    assert found["left_out"] > 0
    assert found["requests"] + found["left_out"] == answer(log, "--with", "chunk=16")["requests"] == 40
    said = f"left out: {found['left_out']} requests of the log, which would get no whole answer"
    assert said in called(log, "--with", "blocks=20").output


@pytest.mark.parametrize("changes", ["system=h100x8", "system=h100-sxmx8", "system=hgx-h100 x 8"])
def test_chips_in_number_are_tensor_parallel_and_all_of_them_are_paid(log: str, changes: str) -> None:
    """The issue's example: every part of it counts, and it is what the options of the same names make of it."""
    found = answer(log, "--with", f"prefix_cache=off,{changes},chunk=512")
    same = answer(log, "--tensor", "8", "--with", "prefix_cache=off,system=hgx-h100,chunk=512")
    assert found["changed"] == same["changed"]
    assert "1 x 8 h100-sxm" in found["changed_on"]
    assert found["differences_from"] == "simulated"
    assert found["changed"]["energy_j"] == pytest.approx(8 * H100_W * found["changed"]["service_s"])
    one = answer(log, "--with", "prefix_cache=off,system=hgx-h100,chunk=512")["changed"]
    assert found["changed"]["tpot_s"]["mean"] < one["tpot_s"]["mean"]
    rent = 8 * one["cost_usd"] / one["service_s"]
    assert found["changed"]["cost_usd"] == pytest.approx(rent * found["changed"]["service_s"])


def test_the_rest_of_a_cut_is_tensor_parallel(log: str) -> None:
    found = answer(log, "--with", "system=h100x8,pipeline=2")
    assert found["changed"] == answer(log, "--with", "system=hgx-h100,tensor=4,pipeline=2")["changed"]


def test_formats_and_fleet(log: str) -> None:
    whole = answer(log, "--with", "system=h100x2")["changed"]
    half = answer(log, "--with", "system=h100x2,weights=fp8,kv=fp8")["changed"]
    assert half["tpot_s"]["mean"] < 0.75 * whole["tpot_s"]["mean"]
    two = answer(log, "--with", "system=h100x2,replicas=2,router=least-work")
    assert "2 x 2 h100-sxm" in two["changed_on"]
    assert "(weights bf16, cache bf16)" in two["changed_on"]
    assert two["changed"]["tpot_s"]["mean"] < whole["tpot_s"]["mean"]
    assert two["changed"]["energy_j"] == pytest.approx(2 * H100_W * two["changed"]["service_s"])


def test_step_times_are_those_of_the_options_of_these_names(log: str) -> None:
    floor = answer(log, "--with", "system=hgx-h100,host-gap=0ms")
    assert answer(log, "--host-gap", "0ms", "--with", "system=hgx-h100,chunk=64")["changed"] == floor["changed"]
    waiting = answer(log, "--with", "system=hgx-h100,host_gap=5ms")["changed"]["tpot_s"]["mean"]
    assert waiting >= floor["changed"]["tpot_s"]["mean"] + 5e-3
    fitted = answer(log, "--with", "system=h100x2,calibrated=vllm")
    assert "steps: calibrated to vllm; h100-sxm: TPOT is off by " in fitted["changed_on"]
    assert fitted["changed"] == answer(log, "--calibrated", "vllm", "--with", "system=h100x2")["changed"]
    spread = answer(log, "--with", "system=h100x8,expert=8", "--model", "mixtral-8x7b")["changed"]
    cut = ("--tensor", "8", "--expert", "8", "--model", "mixtral-8x7b")
    assert spread == answer(log, "--with", "system=hgx-h100", *cut)["changed"]


def test_the_logged_machine_prices_what_was_logged_request_by_request(log: str, measured: str, tmp_path: Path) -> None:
    """100 W and 0.001 USD a second while busy, against three chips of 700 W; the model stays the file's."""
    out = tmp_path / "requests.parquet"
    found = answer(log, "--system", measured, "--with", "system=h100x3,chunk=32", "--out", str(out))
    assert "Small" in found["changed_on"]
    for run in (found["logged"], found["simulated"]):
        assert run["energy_j"] == pytest.approx(100 * run["service_s"])
        assert run["cost_usd"] == pytest.approx(run["service_s"] / 1000)
    rows = pq.read_table(out)
    assert rows.schema.metadata == {b"differences_from": b"simulated"}
    assert rows.num_rows == 40
    for row, one in zip(rows.to_pylist(), found["by_request"], strict=True):
        assert row["id"] == one["id"]
        assert row["logged_energy_j"] == pytest.approx(100 * row["logged_service_s"])
        assert row["changed_energy_j"] == pytest.approx(3 * H100_W * row["changed_service_s"])
        for amount, difference in one["difference"].items():
            assert row[f"difference_{amount}"] == difference
            assert difference == pytest.approx(row[f"changed_{amount}"] - row[f"simulated_{amount}"])
    total = sum(one["difference"]["cost_usd"] for one in found["by_request"])
    assert total == pytest.approx(found["changed"]["cost_usd"] - found["simulated"]["cost_usd"])


def test_a_change_of_the_scheduler_keeps_the_price(log: str, measured: str) -> None:
    found = answer(log, "--system", measured, "--with", "max_running=2")
    assert found["changed"]["energy_j"] == pytest.approx(100 * found["changed"]["service_s"])
    assert (found["simulated_on"], found["model_error"]) == ("", None)


def test_a_system_without_a_change_is_the_log_with_its_step_times(log: str, measured: str) -> None:
    found = answer(log, "--system", measured)
    named = answer(log, "--with", f"system={measured}")
    assert found["differences_from"] == named["differences_from"] == "logged"
    assert found["model_error"] == named["model_error"]
    assert found["logged"]["cost_usd"] == pytest.approx(found["logged"]["service_s"] / 1000)
    ttft = [found[run]["ttft_s"]["mean"] for run in ("logged", "changed")]
    assert found["model_error"]["ttft"]["of_mean"] == pytest.approx(ttft[1] / ttft[0] - 1)
    text = called(log, "--system", measured).output
    assert "difference: changed less logged" in text
    for what in ("prompt steps", "decode steps", "TTFT", "TPOT"):
        assert f"\n  {what:14} " in text
    decodes = found["model_error"]["decode_steps"]
    cells = f"{decodes['number']:>10} {decodes['of_mean']:>+10.1%} {decodes['median']:>10.1%} {decodes['p90']:>10.1%}"
    assert f"decode steps   {cells}\n" in text


def test_a_change_of_a_modelled_machine_is_told_from_that_machine_modelled(log: str) -> None:
    found = answer(log, "--system", "hgx-h100", "--with", "tensor=4")
    assert "1 x 1 h100-sxm" in found["simulated_on"]
    assert "1 x 4 h100-sxm" in found["changed_on"]
    assert found["simulated"] == answer(log, "--with", "system=hgx-h100")["changed"]
    assert found["changed"] == answer(log, "--with", "system=h100x4")["changed"]
    assert found["differences_from"] == "simulated"
    assert found["model_error"] == answer(log, "--system", "hgx-h100")["model_error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--with", "tensor=2"), "--with tensor=2: needs a cost model: system=NAME beside it, or --system"),
        (("--with", "system=h100x8,tensor=2"), "--with system=h100x8: 8 chips are not what tensor=2 makes"),
        (("--with", "system=h100x8,data=3"), "--with system=h100x8: 8 chips are not what data=3 makes"),
        (("--with", "system=h100x7"), "tensor parallelism 7 does not divide 32 heads"),
        (("--with", "system=h100x0"), "system 'h100x0' is not known"),
        (("--with", "system=8xhgx-h100"), "say how many of its chips a replica takes by --tensor"),
        (("--with", "system="), "system needs a value"),
        (("--with", "system=h100x8,host_gap=x"), "--with host_gap=x: "),
        (("--with", "replicas=0"), "--with replicas must be a whole number from 1 to 4,096, not '0'"),
        (("--with", "replicas=2,router=nope"), "router must be one of round-robin, least-work"),
        (("--with", "system=h100x8,weights=fp9"), "number format 'fp9' is not known"),
        (("--with", "system=hgx-h100", "--model", "llama-3.1-70b"), "no room for a KV block"),
        (("--with", "system=hgx-h100,blocks=16000000"), "16,000,000 KV blocks of 4 tokens"),
        (("--with", "chunk=16", "--out", "x.jsonl"), "must end in .jsonl of a sweep, else in .parquet"),
        (("--out", "x.parquet"), "or --out"),
    ],
)
def test_what_cannot_be_gets_one_line(arguments: tuple[str, ...], said: str, log: str) -> None:
    result = called(log, *arguments)
    assert result.exit_code in (1, 2)
    [line] = result.stderr.splitlines()
    assert said in line


def test_chips_are_counted_of_every_system() -> None:
    catalog = load_catalog()
    for name, system in catalog.systems.items():
        assert catalog.chips_in_number(name) is None
        assert catalog.chips_in_number(f"{name}x4") == (name, 4)
        chip = catalog.chips_in_number(f"{system.chip.name} x 2")
        assert chip is not None
        assert catalog.system(chip[0]).chip == system.chip
    assert catalog.chips_in_number("H200X8") == ("hgx-h200", 8)
    for none in ("h300x8", "nodex8", "nvl72x2", "h100", "x8", "h100x0"):
        assert catalog.chips_in_number(none) is None
