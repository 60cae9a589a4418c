"""Writes the tables of calibration.md from what `headway plan validate --json` says: `python docs/calibration.py FILE`.

Sentences between them quote figures by hand: read them again after the tables have changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

PAGE = Path(__file__).parent / "calibration.md"
COLUMNS = ("in_sample", "model_held_out", "chip_held_out")
SECTIONS = {
    "In sample": "in_sample",
    "Each model held out in turn": "model_held_out",
    "Each chip held out in turn": "chip_held_out",
}
SUMMARY = (
    ("TPOT, macro median by model", "12%", "tpot", "model", "macro_median_error"),
    ("TPOT, macro mean by model", "25%", "tpot", "model", "macro_mean_error"),
    ("TPOT, macro median by chip", "12%", "tpot", "chip", "macro_median_error"),
    ("TPOT, macro mean by chip", "25%", "tpot", "chip", "macro_mean_error"),
    ("TTFT, macro median by model", "30%", "ttft", "model", "macro_median_error"),
    ("TTFT, macro median by chip", "30%", "ttft", "chip", "macro_median_error"),
    ("TPOT, coverage of the 90% interval", "90%", "tpot", "model", "coverage"),
    ("TTFT, coverage of the 90% interval", "90%", "ttft", "model", "coverage"),
)
Json = dict[str, Any]


def table(errors: Json, metric: str, by: str) -> Json:
    found: Json = next(t for t in errors["tables"] if (t["metric"], t["by"]) == (metric, by))
    return found


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def summary(report: Json) -> list[str]:
    rows = [["", "aim", "in sample", "each model held out", "each chip held out"], ["---"] * 5]
    for name, aim, metric, by, key in SUMMARY:
        rows.append([name, aim, *(f"{table(report[column], metric, by)[key]:.1%}" for column in COLUMNS)])
    for key, aim in (("median", "10%"), ("mean", "")):
        rows.append([f"decision regret, {key}", aim, *(f"{report[c]['regret'][key]:.1%}" for c in COLUMNS)])
    return [line(row) if row[0] != "---" else f"|{'|'.join(row)}|" for row in rows]


def errors_by(errors: Json, by: str) -> list[str]:
    figures = ("median", "mean", "bias", "interval", "covers")
    titles = [by, "TPOT points", *figures, f"TTFT {figures[0]}", *figures[1:]]
    tpot, ttft = ({row["name"]: row for row in table(errors, metric, by)["rows"]} for metric in ("tpot", "ttft"))
    rows = [
        line([name, str(row["points"]), *shown(row), *shown(ttft[name])]) if name in ttft
        else line([name, str(row["points"]), *shown(row), *[""] * len(figures)])
        for name, row in sorted(tpot.items())
    ]  # fmt: skip
    return [line(titles), f"|{'|'.join(['---'] * len(titles))}|", *rows]


def shown(row: Json) -> list[str]:
    return [
        f"{row['median_error']:.1%}",
        f"{row['mean_error']:.1%}",
        f"{row['median_bias']:+.1%}",
        f"x{row['interval_ratio']:.2f}",
        f"{row['coverage']:.0%}",
    ]


def with_tables(text: str, report: Json) -> str:
    """Each heading keeps its sentences; its tables come anew."""
    parts = re.split(r"(?m)^(?=## )", text)
    return "".join(_section(part, report) for part in parts)


def _section(part: str, report: Json) -> str:
    title = part.partition("\n")[0].removeprefix("## ")
    if title == "Where it stands":
        return _replaced(part, [summary(report)])
    if title in SECTIONS:
        return _replaced(part, [errors_by(report[SECTIONS[title]], by) for by in ("model", "chip", "engine")])
    return part


def _replaced(part: str, tables: list[list[str]]) -> str:
    new = iter(tables)
    return re.sub(r"(?m)(?:^\|.*\n)+", lambda _: "\n".join(next(new)) + "\n", part)


@click.command(help=__doc__)
@click.argument("answer", type=click.Path(exists=True, path_type=Path, dir_okay=False))
def main(answer: Path) -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), json.loads(answer.read_text())))


if __name__ == "__main__":
    main()
