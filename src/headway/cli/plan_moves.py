"""Questions about what moves: prefixes, weights, a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headway.cli.plan_deployment import (
    HOURLY,
    LIFE,
    MFU,
    a_request,
    charted,
    draw,
    on_a_system,
    taken,
    workload,
)
from headway.cli.plan_options import BATCH, TOKENS, Whole, one_line, option
from headway.cli.plan_show import show
from headway.cli.preconditions import Beside
from headway.cli.quantities import Number, Seconds


@click.command("prefix")
@on_a_system
@option("--tokens", type=TOKENS, default=100_000, help="Tokens of the prefix.")
@MFU
@HOURLY
@LIFE
def prefix_question(
    tokens: int, usd_per_chip_hour: float | None, life_years: float, as_json: bool, **asked: Any
) -> None:
    """Compute a prefix again or load its cache from a tier; for how long holding it pays."""
    from headway.planner.prefix import prefix_report

    with one_line():
        catalog, where = taken(asked)
        price = usd_per_chip_hour if usd_per_chip_hour is not None else where.system.chip.rent_usd_per_hour
        report = prefix_report(where, catalog.tiers, tokens, price, life_years)
    show(report, as_json)


@click.command("load")
@on_a_system
@option("--batch", type=BATCH, default=32, help="Sequences in the steps that a load delays.")
@option("--context", type=TOKENS, default=8192, help="Tokens of each.")
def load_question(batch: int, context: int, as_json: bool, **asked: Any) -> None:
    """Loading a model's weights, or swapping it in for another."""
    from headway.planner.loading import load_report

    with one_line():
        catalog, where = taken(asked)
        report = load_report(where, catalog.tiers, batch, context)
    show(report, as_json)


@click.command("journey")
@on_a_system
@a_request()
@MFU
@option(
    "--round-trip-s", type=Seconds(least_s=0, most_s=60), default=0.137, help="There and back; Seoul to Oregon: 137ms."
)
@option(
    "--distance-m",
    cls=Beside,
    other="round_trip_s",
    instead=True,
    type=Number(0, 2.1e7),
    help="In its place: the straight line to the region.",
)
@option(
    "--utilisation",
    type=Number(0, 1, max_open=True),
    default=0.5,
    help="Share of the time that the node is busy, for the queue.",
)
@option("--handshakes", type=Whole(0, 10), default=0, help="Round trips before the request; 2 when cold.")
@charted
def journey_question(
    round_trip_s: float,
    distance_m: float | None,
    utilisation: float,
    handshakes: int,
    chart: Path | None,
    title: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """One request from the user to a chip and back, as one timeline."""
    from headway.planner import charts, journey

    with one_line():
        work = workload(asked)
        _, where = taken(asked)
        trip = round_trip_s if distance_m is None else journey.round_trip_s(distance_m)
        report = journey.journey_report(where, work, trip, utilisation, handshakes)
    draw(lambda: charts.timeline_chart(report, title), chart)
    show(report, as_json)


COMMANDS = (prefix_question, load_question, journey_question)
