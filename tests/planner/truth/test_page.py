"""The tables of docs/calibration.md are what `headway plan validate --json` says, and its sentences stay."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from headway.planner.truth.report import Errors
from headway.planner.truth.tables import BY, METRICS, ErrorRow, ErrorTable, Regret

DOCS = Path(__file__).parents[3] / "docs"
TABLE = r"(?m)(?:^\|.*\n)+"


def _writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_calibration", DOCS / "calibration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def errors(kind: str, by_how_much: float) -> dict[str, Any]:
    rows = tuple(ErrorRow(name, 7, by_how_much, 0.5, -0.25, 0.75, 1.5) for name in ("alpha", "beta"))
    tables = tuple(ErrorTable(metric, by, rows, by_how_much, 0.5, 0.75) for metric in METRICS for by in BY)
    regret = Regret(groups=3, median=by_how_much, mean=0.5, within_tenth=0.9, missed=0.1, random_median=0.6)
    found: dict[str, Any] = json.loads(json.dumps(asdict(Errors(kind, tables, regret))))
    return found


REPORT = {
    "in_sample": errors("in_sample", 0.111),
    "model_held_out": errors("model_held_out", 0.222),
    "chip_held_out": errors("chip_held_out", 0.333),
}


def test_tables_come_anew_and_sentences_stay() -> None:
    writer, page = _writer(), (DOCS / "calibration.md").read_text()
    written = writer.with_tables(page, REPORT)
    assert "| TPOT, macro median by model | 12% | 11.1% | 22.2% | 33.3% |\n" in written
    assert "| decision regret, median | 10% | 11.1% | 22.2% | 33.3% |\n" in written
    row = "| alpha | 7 | {0} | 50.0% | -25.0% | x1.50 | 75% | {0} | 50.0% | -25.0% | x1.50 | 75% |\n"
    for error in ("11.1%", "22.2%", "33.3%"):
        assert written.count(row.format(error)) == len(BY)
    assert re.sub(TABLE, "", written) == re.sub(TABLE, "", page)
    assert len(re.findall(TABLE, written)) == len(re.findall(TABLE, page))
    assert writer.with_tables(written, REPORT) == written


def test_what_was_measured_of_one_metric_alone_has_empty_cells() -> None:
    writer = _writer()
    found = errors("in_sample", 0.1)
    for table in found["tables"]:
        if table["metric"] == "ttft":
            table["rows"] = table["rows"][:1]
    assert writer.errors_by(found, "chip")[-1] == "| beta | 7 | 10.0% | 50.0% | -25.0% | x1.50 | 75% |  |  |  |  |  |"
