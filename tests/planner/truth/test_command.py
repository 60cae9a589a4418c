"""`headway plan fit` and `headway plan validate` from end to end, on a small sample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.catalog import load_catalog
from headway.cli.plan import plan
from headway.roofline import calibration
from tests.planner.truth.test_readers import SAMPLE


def test_a_fit_is_written_and_used(tmp_path: Path) -> None:
    out = tmp_path / "calibration.csv"
    answer = CliRunner().invoke(plan, ["fit", "--data", str(SAMPLE), "--out", str(out), "--json"])
    assert answer.exit_code == 0, answer.output
    said = json.loads(answer.output)
    assert said["data"][0]["sha256"][:12] in out.read_text()
    catalog = load_catalog([tmp_path])
    fitted = calibration(catalog.calibrations["h100-sxm/trtllm"])
    stated = said["calibrations"]["h100-sxm/trtllm"]
    assert fitted.points == stated["points"] > 10
    assert fitted.coefficients.bandwidth_efficiency == pytest.approx(stated["bandwidth_efficiency"], rel=1e-3)
    assert fitted.held_out_median_error == pytest.approx(stated["held_out_median_error"], rel=1e-3)
    asked = ["roofline", "llama-3.1-8b", "--engine", "trtllm", "--catalog", str(tmp_path)]
    text = CliRunner().invoke(plan, asked).output
    assert "in sample" in text
    assert "held out" in text
    unseen = CliRunner().invoke(plan, [*asked, "--system", "mi300x-node"]).output
    assert "never measured" in unseen


def test_validation_says_what_was_asked_and_answered() -> None:
    answer = CliRunner().invoke(plan, ["validate", "--data", str(SAMPLE), "--json"])
    assert answer.exit_code == 0, answer.output
    said = json.loads(answer.output)
    assert 0.9 < said["data"][0]["answered_share"] <= 1
    for kind in ("in_sample", "model_held_out", "chip_held_out", "declared"):
        assert {table["by"] for table in said[kind]["tables"]} == {"model", "chip", "engine"}
        assert all(0 <= table["coverage"] <= 1 for table in said[kind]["tables"])
    assert said["in_sample"]["regret"]["groups"] > 0


@pytest.mark.parametrize("command", ["fit", "validate"])
def test_a_wrong_file_is_one_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,2\n")
    answer = CliRunner().invoke(plan, [command, "--data", str(path)])
    assert answer.exit_code == 1
    assert "bad.csv, line 1: column" in answer.output
    assert "Traceback" not in answer.output
