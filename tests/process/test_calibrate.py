"""`headway calibrate` on a tiny model: what it writes is what simulate takes; mistakes and Ctrl-C leave nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.catalog.machine import read_machine
from headway.cli import main
from headway.cli.one_line import INTERRUPTED
from headway.engine.measuring import MeasuredStep, Measuring, Scenario
from tests.process.tiny_model import write_tiny_model

HEADWAY = [sys.executable, "-c", "from headway.cli import main; main(prog_name='headway')"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*HEADWAY, *map(str, arguments)]
    return subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=280, check=False)


def test_a_machine_file_from_end_to_end(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "here.json"
    result = run("calibrate", tiny, "--out", out, "--budget", "4", "--power-w", "20", "--usd-per-hour", "0.1")
    assert result.returncode == 0, result.stderr
    assert "shapes held out" in result.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["here.json"]
    machine = read_machine(out)
    assert (machine.model, machine.dtype, machine.number_format, machine.device) == ("tiny", "float32", "fp32", "cpu")
    assert (machine.peaks.power_w, machine.peaks.usd_per_hour) == (20.0, 0.1)
    assert machine.steps >= machine.points > 10
    assert machine.config["vocab_size"] == 257
    asked = ("--requests", "5", "--input-tokens", "50", "--output-tokens", "10", "--json")
    simulated = run("simulate", "--system", out, *asked)
    assert simulated.returncode == 0, simulated.stderr
    found = json.loads(simulated.stdout)
    assert (found["model"], found["finished"]) == ("tiny", 5)
    assert 0 < found["tpot_s"]["mean"] < 1
    assert found["energy_j"] > 0


def test_mistakes_are_one_line(tiny: Path, tmp_path: Path) -> None:
    for arguments, code in (
        (("calibrate", tmp_path / "absent"), 1),
        (("calibrate", tiny, "--out", tmp_path / "file.yaml"), 2),
        (("calibrate", tiny, "--out", tmp_path / "no" / "file.json"), 2),
        (("calibrate", tiny, "--device", "toaster", "--out", tmp_path / "file.json"), 1),
        (("calibrate", tiny, "--budget", "0"), 2),
    ):
        result = run(*arguments)
        assert result.returncode == code, result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("headway: ")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = Measuring.run, 0

    def interrupted(self: Measuring, scenario: Scenario) -> list[MeasuredStep]:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return whole(self, scenario)

    monkeypatch.setattr(Measuring, "run", interrupted)
    result = CliRunner().invoke(main, ["calibrate", str(tiny), "--out", str(tmp_path / "here.json")])
    assert (result.exit_code, result.output, calls) == (INTERRUPTED, "", 30)
    assert list(tmp_path.iterdir()) == []
