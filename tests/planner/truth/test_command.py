"""`headway plan fit` and `headway plan validate` from end to end, on a small sample."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from headway.catalog import load_catalog
from headway.cli.plan import plan
from headway.planner.truth.evidence import evidence
from headway.planner.truth.unseen import by_catalog
from headway.roofline import calibration
from headway.roofline.coefficients import NAMES
from headway.roofline.serving import served_s
from tests.planner.truth.test_readers import ROW, SAMPLE, read_data


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


def part(tmp_path: Path, name: str, of_model: bool) -> Path:
    """The sample's rows of gpt-oss, or all others."""
    header, *rows = SAMPLE.read_text().splitlines()
    path = tmp_path / name
    path.write_text("\n".join([header, *(row for row in rows if ("gpt-oss" in row) == of_model)]) + "\n")
    return path


def test_unseen_measurements_are_judged_by_a_fit_to_the_others(tmp_path: Path) -> None:
    others, held = part(tmp_path, "others.csv", False), part(tmp_path, "held.csv", True)
    split = CliRunner().invoke(plan, ["validate", "--data", str(others), "--unseen", str(held), "--json"])
    assert split.exit_code == 0, split.output
    said = json.loads(split.output)
    whole = json.loads(CliRunner().invoke(plan, ["validate", "--data", str(SAMPLE), "--json"]).output)
    (row,) = said["unseen"]["tables"][0]["rows"]
    (same,) = [each for each in whole["model_held_out"]["tables"][0]["rows"] if each["name"] == row["name"]]
    assert row["name"] == "gpt-oss-120b"
    assert row["median_error"] == pytest.approx(same["median_error"], rel=1e-6)
    assert said["unseen_data"][0]["measurements"] == row["points"] + said["unseen"]["tables"][3]["rows"][0]["points"]


def test_the_catalogs_calibrations_are_judged_without_a_fit() -> None:
    answer = CliRunner().invoke(plan, ["validate", "--unseen", str(SAMPLE), "--json"])
    assert answer.exit_code == 0, answer.output
    said = json.loads(answer.output)
    assert said["in_sample"] is said["model_held_out"] is None
    assert 0 < said["unseen"]["tables"][0]["macro_median_error"] < 0.5
    asked = evidence([read_data(SAMPLE)], load_catalog())
    tpot = asked.where(lambda m: m.metric) == "tpot"
    before = by_catalog(asked, load_catalog())
    assert (before.ratio[tpot] > 1).all()
    fitted = load_catalog().calibrations["h100-sxm/trtllm"]
    rows = np.flatnonzero([m.system == "hgx-h100" and m.engine == "trtllm" for m in asked.found])
    assert len(rows) > 10
    assert np.allclose(
        before.predicted_s[rows],
        served_s(asked.served.take(rows), {name: np.array([fitted[name].value]) for name in NAMES}),
    )


def test_what_was_fitted_is_not_unseen(tmp_path: Path) -> None:
    held = part(tmp_path, "held.csv", True)
    answer = CliRunner().invoke(plan, ["validate", "--data", str(SAMPLE), "--unseen", str(held)])
    assert (answer.exit_code, answer.output.strip()) == (1, "Error: --unseen: all of it is in --data too")


def test_a_calibration_without_intervals_says_none(tmp_path: Path) -> None:
    (tmp_path / "calibration.csv").write_text(
        "item,figure,value,unit,status,source,date,note\n"
        + "".join(
            f"mi300x/vllm,{name},{value},{unit},measured,us,2026-11,\n"
            for name, value, unit in (
                ("median_error", 0.1, "fraction"),
                ("mean_error", 0.2, "fraction"),
                ("points", 9, "rows"),
            )
        )
    )
    own = tmp_path / "own.csv"
    own.write_text(f"{SAMPLE.read_text().splitlines()[0]}\n{ROW.format('mi300x', 1, 'Qwen/Qwen3-8B', 'bf16', 1)}\n")
    asked = ["validate", "--unseen", str(own), "--catalog", str(tmp_path)]
    (row,) = json.loads(CliRunner().invoke(plan, [*asked, "--json"]).output)["unseen"]["tables"][0]["rows"]
    assert (row["points"], row["coverage"], row["interval_ratio"]) == (1, None, None)
    assert "covers" not in CliRunner().invoke(plan, asked).output
