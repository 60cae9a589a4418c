"""`headway plan fit` and `headway plan validate`: the cost model against published measurements."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.out_files import OutFile
from headway.cli.plan_options import CATALOG, JSON, one_line, option
from headway.cli.quantities import NamedPath

if TYPE_CHECKING:
    from headway.catalog import Catalog
    from headway.planner.truth.evidence import Evidence
    from headway.planner.truth.held_out import HeldOut
    from headway.planner.truth.readers import DataFile
    from headway.planner.truth.report import Errors, ValidationReport
    from headway.planner.truth.tables import ErrorTable


_TABLES: dict[str, Any] = {"multiple": True, "type": NamedPath(path_type=Path, dir_okay=False)}
_KINDS = "Table of published points, or of ML.ENERGY's runs; .csv or .csv.gz; several may be given."
_UNSEEN = "The same, of what no fit may see: predicted by the fit to --data, without it by the catalog's calibrations."


@click.command("fit")
@option("--data", "paths", required=True, help=_KINDS, **_TABLES)
@option("--out", type=OutFile(".csv"), help="A calibration.csv for `--catalog DIR`.")
@CATALOG
@JSON
def fit_question(paths: tuple[Path, ...], out: Path | None, overlays: tuple[Path, ...], as_json: bool) -> None:
    """Fit the calibrated cost model to measurements, and say how far off it is on those that it did not see."""
    from headway.catalog import load_catalog
    from headway.planner.truth.report import summary
    from headway.planner.truth.ship import as_csv, shipped

    with one_line():
        catalog = load_catalog(overlays)
        files, evidence, held = _held_out(paths, catalog)
        found = shipped(evidence, held, catalog)
        date = datetime.now(UTC).strftime("%Y-%m")
        if out is not None:
            _write(out, as_csv(found, files, date))
    if as_json:
        answer = {"date": date, "data": [asdict(summary(file)) for file in files]}
        click.echo(json.dumps(answer | {"calibrations": {each.name: each.figures for each in found}}, allow_nan=False))
        return
    click.echo(f"{len(evidence):,} measurements; errors are of TPOT, in sample | on models or chips held out")
    for each in found:
        f = each.figures
        unseen = f"{f['held_out_median_error']:.1%}" if "held_out_median_error" in f else "none held out"
        click.echo(f"  {each.name:24} {f['points']:6.0f} points  median {f['median_error']:.1%} | {unseen}")
    if out is not None:
        click.echo(f"written to {out}")


@click.command("validate")
@option("--data", "paths", help=_KINDS, **_TABLES)
@option("--unseen", "others", help=_UNSEEN, **_TABLES)
@CATALOG
@JSON
def validate_question(
    paths: tuple[Path, ...], others: tuple[Path, ...], overlays: tuple[Path, ...], as_json: bool
) -> None:
    """Errors of the cost model by model, chip and engine, in sample and held out; coverage; decision regret."""
    if not paths and not others:
        raise click.UsageError("give measurements: --data FILE, --unseen FILE or both")
    with one_line():
        report = _validated(paths, others, overlays)
    if as_json:
        click.echo(json.dumps(asdict(report), allow_nan=False))
    else:
        _show(report)


def _validated(paths: tuple[Path, ...], others: tuple[Path, ...], overlays: tuple[Path, ...]) -> ValidationReport:
    from headway.catalog import load_catalog
    from headway.planner.truth.readers import read_all
    from headway.planner.truth.report import ValidationReport, validation_report, with_unseen
    from headway.planner.truth.unseen import by_catalog, by_fit, unseen

    catalog = load_catalog(overlays)
    judges = read_all(others, catalog)
    if not paths:
        asked = unseen(judges, (), catalog)
        return with_unseen(ValidationReport(), judges, asked, by_catalog(asked, catalog))
    files, known, held = _held_out(paths, catalog)
    report = validation_report(files, known, held)
    if not judges:
        return report
    asked = unseen(judges, files, catalog)
    return with_unseen(report, judges, asked, by_fit(asked, known, held))


def _held_out(paths: tuple[Path, ...], catalog: Catalog) -> tuple[tuple[DataFile, ...], Evidence, HeldOut]:
    from headway.planner.truth.evidence import evidence
    from headway.planner.truth.held_out import held_out
    from headway.planner.truth.readers import read_all

    files = read_all(paths, catalog)
    known = evidence(files, catalog)
    return files, known, held_out(known)


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{out}: {error.strerror}") from None


def _show(report: ValidationReport) -> None:
    for data in (*report.data, *report.unseen_data):
        click.echo(
            f"{data.name} (sha256 {data.sha256[:12]}): {data.rows:,} rows, {data.asked_rows:,} of TPOT or TTFT, "
            f"{data.answered_share:.1%} answered, {data.measurements:,} distinct"
        )
    by = "the fit to the data" if report.data else "the catalog's calibrations"
    for title, errors in (
        ("in sample", report.in_sample),
        ("each model held out in turn", report.model_held_out),
        ("each chip held out in turn", report.chip_held_out),
        (f"held out together: {', '.join(report.declared_held_out)}", report.declared),
        (f"unseen, predicted by {by}", report.unseen),
    ):
        if errors is not None:
            click.echo(f"\n{title}")
            _show_errors(errors)
    click.echo("\nassuming")
    for line in report.assumptions:
        click.echo(f"  - {line}")


def _show_errors(errors: Errors) -> None:
    for table in errors.tables:
        _show_table(table)
    r = errors.regret
    if r is not None:
        click.echo(
            f"  decision regret: median {r.median:.1%}, mean {r.mean:.1%} over {r.groups} groups; "
            f"{r.within_tenth:.0%} within 10%, {r.missed:.0%} miss the SLO; at random: median {r.random_median:.0%}"
        )


def _show_table(table: ErrorTable) -> None:
    covered = "" if table.coverage is None else f", coverage {table.coverage:.0%}"
    click.echo(
        f"  {table.metric.upper()} by {table.by}: macro median {table.macro_median_error:.1%}, "
        f"mean {table.macro_mean_error:.1%}{covered}"
    )
    for row in table.rows:
        within = "" if row.coverage is None else f"  interval x{row.interval_ratio:.2f} covers {row.coverage:.0%}"
        click.echo(
            f"    {row.name:20} {row.points:5} points  median {row.median_error:6.1%}  mean {row.mean_error:6.1%}  "
            f"bias {row.median_bias:+6.1%}{within}"
        )
