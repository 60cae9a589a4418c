"""`headway plan`: questions about a model, a system and a workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from headway.cli import plan_money, plan_moves, plan_steps
from headway.cli.plan_deployment import HOURLY, a_request, charted, draw, on_a_system, taken, workload
from headway.cli.plan_group import OnceGroup
from headway.cli.plan_options import (
    BATCH,
    CATALOG,
    JSON,
    SLO,
    SYSTEM,
    TOKENS,
    Whole,
    about_a_model,
    check_beside,
    look_up,
    one_line,
    option,
    search_space,
    searching,
)
from headway.cli.plan_truth import fit_question, validate_question
from headway.cli.preconditions import Beside
from headway.cli.quantities import Number


@click.group(cls=OnceGroup, no_args_is_help=False, invoke_without_command=True)
@click.pass_context
def plan(context: click.Context) -> None:
    """The arithmetic of inference: memory, roofline, price, energy.

    MODEL is the name of a model in the catalog (`headway plan list`), or a config.json of Hugging Face, or a directory
    that holds one.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@plan.command("list")
@CATALOG
@JSON
def list_catalog(overlays: tuple[Path, ...], as_json: bool) -> None:
    """What the catalog knows by name: models, systems, chips, prices, tiers, number formats."""
    from headway.arithmetic.formats import FORMATS
    from headway.catalog import load_catalog
    from headway.cli.plan_text import show_names

    with one_line():
        catalog = load_catalog(overlays)
    names = {
        "models": list(catalog.configs),
        "systems": list(catalog.systems),
        "chips": list(catalog.chips),
        "prices": list(catalog.prices),
        "tiers": list(catalog.tiers),
        "formats": list(FORMATS),
    }
    show_names(names, as_json)


@plan.command("model")
@about_a_model
def model_question(as_json: bool, **asked: Any) -> None:
    """What MODEL is: parameters by part, kinds of layers, bytes of weights and cache."""
    from headway.cli.plan_text import show_model
    from headway.planner.model import model_report

    with one_line():
        catalog, shape, precision = look_up(**asked)
        report = model_report(asked["model"], shape, precision, catalog.published_of(asked["model"]))
    show_model(report, as_json)


@plan.command("kv")
@about_a_model
@SYSTEM
@option("--chip", cls=Beside, other="system", instead=True, help="Whose memory is counted in, if no system's.")
@option("--context", type=TOKENS, default=131_072, help="Tokens of each sequence.")
@option("--batch", type=BATCH, default=1, help="Sequences.")
@option("--beside", cls=Beside, other="chart", multiple=True, metavar="MODEL", help="Further models in the chart.")
@charted
def kv_question(
    system: str,
    chip: str | None,
    context: int,
    batch: int,
    beside: tuple[str, ...],
    chart: Path | None,
    title: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Bytes of cache for a token, a context and a batch, and how many chips that is."""
    from headway.cli.plan_text import show_kv
    from headway.planner import charts
    from headway.planner.kv import kv_report

    check_beside(beside, asked["model"])
    with one_line():
        catalog, shape, precision = look_up(**asked)
        counted = catalog.chip(chip) if chip else catalog.system(system).chip
        report = kv_report(asked["model"], shape, precision, counted, context, batch)
        others = [(name, look_up(name, asked["overlays"])[1]) for name in beside]
    draw(lambda: charts.kv_chart([(asked["model"], shape), *others], precision, context, title), chart)
    show_kv(report, as_json)


@plan.command("roofline")
@on_a_system
@option("--context", type=TOKENS, default=8192, help="Tokens of each sequence.")
@option("--batch", type=BATCH, default=1, help="Sequences in a decode step.")
@option("--beside", cls=Beside, other="chart", multiple=True, metavar="SYSTEM", help="Further systems in the chart.")
@charted
def roofline_question(
    context: int,
    batch: int,
    beside: tuple[str, ...],
    chart: Path | None,
    title: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Every operation of a decode and a prefill step against the chip's ridge; the floor of both steps."""
    from headway.cli.plan_text import show_roofline
    from headway.planner import charts
    from headway.planner.step import roofline_report

    engine = asked["engine"]
    check_beside(beside, asked["system"])
    with one_line():
        catalog, where = taken(asked)
        report = roofline_report(where, context, batch)
        others = [
            roofline_report(replace(where, system=catalog.system(name), fitted=None), context, batch) for name in beside
        ]
        if not report.fits and not as_json:
            click.echo(f"does not fit: {where.would_fit(context, batch)}", err=True)
    draw(lambda: charts.roofline_chart([report, *others], title), chart)
    show_roofline(report, engine, as_json)


@plan.command("receipt")
@on_a_system
@a_request()
@HOURLY
@option("--overhead", type=Number(1, 10), default=1.56, help="Power at the wall over that of the chips.")
@option("--usd-per-kwh", type=Number(0, 100), default=0.08, help="Price of electricity.")
def receipt_question(
    usd_per_chip_hour: float | None, overhead: float, usd_per_kwh: float, as_json: bool, **asked: Any
) -> None:
    """Seconds, joules and dollars of one request."""
    from headway.cli.plan_text import show_receipt
    from headway.planner.request import request_receipt

    engine = asked["engine"]
    with one_line():
        work = workload(asked)
        _, where = taken(asked)
        report = request_receipt(where, work, overhead, usd_per_kwh, usd_per_chip_hour)
    show_receipt(report, engine, as_json)


@plan.command("pareto")
@searching
@option("--slo", type=SLO, help="Tokens/s that each user must get.")
@charted
def pareto_question(slo: float | None, chart: Path | None, title: str | None, as_json: bool, **searched: Any) -> None:
    """Interactivity against throughput a chip, over all cuts, batches and formats.

    Exit code 1: the model fits nowhere, or nothing reaches the SLO.
    """
    from headway.cli.plan_text import show_pareto
    from headway.planner import charts
    from headway.planner.pareto import pareto_report

    with one_line():
        space = search_space(**searched)
        report = pareto_report(**space, slo_tokens_per_s=slo)
    common = space | ({} if report.cost_model == "calibrated" else {"fitted": {}})

    def drawing() -> dict[str, Any]:
        alone = [common | {"systems": [system]} for system in space["systems"]]
        return charts.pareto_chart([pareto_report(**each, slo_tokens_per_s=slo) for each in alone], title)

    draw(drawing, chart)
    show_pareto(report, as_json)
    if not report.frontier or (report.slo_tokens_per_s is not None and report.best_at_slo is None):
        raise click.exceptions.Exit(1)


@plan.command("best")
@searching
@option("--slo", type=SLO, required=True, help="Tokens/s that each user must get.")
@option("--count", type=Whole(1, 100), default=5, help="Configurations to show.")
def best_question(slo: float, count: int, as_json: bool, **searched: Any) -> None:
    """The best few configurations that give every user the SLO, and why the first is first.

    Exit code 1: there is none.
    """
    from headway.cli.plan_text import show_best
    from headway.planner.best import best_report

    with one_line():
        report = best_report(**search_space(**searched), slo_tokens_per_s=slo, count=count)
    show_best(report, as_json)
    if not report.best:
        raise click.exceptions.Exit(1)


for question in (*plan_steps.COMMANDS, *plan_moves.COMMANDS, *plan_money.COMMANDS):
    plan.add_command(question)


plan.add_command(fit_question)
plan.add_command(validate_question)
