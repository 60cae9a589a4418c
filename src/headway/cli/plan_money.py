"""Questions about money and fleets: prices, what they imply, demand, a model's life."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headway.cli.plan_deployment import (
    FACTOR,
    HOURLY,
    LIFE,
    MFU,
    MONEY,
    PART,
    a_request,
    hourly,
    on_a_system,
    taken,
    workload,
)
from headway.cli.plan_options import (
    CATALOG,
    JSON,
    MODEL,
    SLO,
    Amount,
    Whole,
    look_up,
    one_line,
    option,
    search_space,
    searching,
)
from headway.cli.plan_show import show
from headway.cli.quantities import Number

COUNT = Amount(1e-6, 1e18)


@click.command("price")
@on_a_system
@a_request(prompt=8192, output=512)
@MFU
@HOURLY
@option("--utilisation", type=PART, default=0.6, help="Share of the time that the replica is busy.")
@option("--price", metavar="NAME", help="Sell at this API's prices (`headway plan list`).")
@option("--input-usd", type=MONEY, help="Sell at: USD for a million new input tokens.")
@option("--cached-usd", type=MONEY, help="Sell at: USD for a million cached input tokens.")
@option("--output-usd", type=MONEY, help="Sell at: USD for a million output tokens.")
@option("--purchase-usd", type=MONEY, help="Price of one chip with its share of the rest.  [default: the catalog's]")
@option("--usd-per-kwh", type=MONEY, default=0.08, help="Price of electricity.")
@option("--overhead", type=Number(1, 10), default=1.56, help="Power at the wall over that of the chips.")
def price_question(
    usd_per_chip_hour: float | None,
    utilisation: float,
    price: str | None,
    input_usd: float | None,
    cached_usd: float | None,
    output_usd: float | None,
    purchase_usd: float | None,
    usd_per_kwh: float,
    overhead: float,
    as_json: bool,
    **asked: Any,
) -> None:
    """$/Mtok at a price of chip-hours; margin at given prices; payback of a purchase."""
    from headway.arithmetic.shape import ShapeError
    from headway.planner.price import Owner, Rates, price_report

    with one_line():
        work = workload(asked)
        catalog, where = taken(asked)
        given = (input_usd, cached_usd, output_usd)
        if price and any(usd is not None for usd in given):
            raise ShapeError("--price and --input-usd, --cached-usd, --output-usd contradict each other: give one")
        rates = None
        if price:
            rates = Rates.listed(catalog.price(price), work.prompt)
        elif any(usd is not None for usd in given):
            if input_usd is None or output_usd is None:
                raise ShapeError("--input-usd and --output-usd are needed together")
            rates = Rates(input_usd, input_usd if cached_usd is None else cached_usd, output_usd)
        bought = purchase_usd if purchase_usd is not None else where.system.chip.price_usd
        owner = Owner(hourly(usd_per_chip_hour, where.system), utilisation, bought, usd_per_kwh, overhead)
        report = price_report(where, work, owner, rates)
    show(report, as_json)


@click.command("fast-mode")
@searching
@option("--slo", type=SLO, default=50.0, help="Tokens/s a user of the ordinary mode.")
@option("--times", type=FACTOR, default=2.5, help="So many times as fast is the fast mode.")
def fast_mode_question(slo: float, times: float, as_json: bool, **searched: Any) -> None:
    """The price multiplier of a fast mode, by the frontier."""
    from headway.planner.fast_mode import fast_mode_report

    with one_line():
        report = fast_mode_report(**search_space(**searched), base_tokens_per_s=slo, times=times)
    show(report, as_json)


@click.command("implied")
@click.argument("price")
@option("--system", default="hgx-h100", help="Whose ridge and links are supposed.")
@option("--active", type=COUNT, nargs=2, default=("20G", "200G"), help="Least and most active parameters supposed.")
@HOURLY
@LIFE
@CATALOG
@JSON
def implied_question(
    price: str,
    system: str,
    active: tuple[float, float],
    usd_per_chip_hour: float | None,
    life_years: float,
    overlays: tuple[Path, ...],
    as_json: bool,
) -> None:
    """What the prices of an API imply about what serves it: ranges and hypotheses. PRICE: as in `headway plan list`."""
    from headway.catalog import load_catalog
    from headway.planner.implied import implied_report

    with one_line():
        catalog = load_catalog(overlays)
        supposed = catalog.system(system)
        rent = usd_per_chip_hour if usd_per_chip_hour is not None else supposed.chip.rent_usd_per_hour
        report = implied_report(catalog.price(price), supposed, catalog.tiers, active, rent, life_years)
    show(report, as_json)


@click.command("fleet")
@on_a_system
@a_request(prompt=4096, output=512)
@MFU
@HOURLY
@option("--users", type=COUNT, default="10M", help="Users at the start.")
@option("--requests-per-day", type=COUNT, default=20.0, help="Requests of a user.")
@option("--peak", type=Number(1, 100), default=2.0, help="Load at the peak, over the mean.")
@option("--growth", type=FACTOR, default=3.0, help="Growth of users: a factor a year.")
@option("--years", type=Whole(0, 30), default=3, help="Years to look ahead.")
@option("--training-share", type=Number(0, 1, max_open=True), default=0.5, help="Share of all chips that train.")
@option("--utilisation", type=PART, default=0.6, help="Share of the time that replicas are busy, at the peak.")
@option("--transceivers", type=Number(0, 100), default=6.0, help="Optical transceivers a chip.")
@option("--transceiver-w", type=Number(0, 1000), default=30.0, help="Watts of a transceiver.")
@option("--overhead", type=Number(1, 10), default=1.56, help="Power at the wall over that of the chips.")
def fleet_question(
    usd_per_chip_hour: float | None,
    users: float,
    requests_per_day: float,
    peak: float,
    growth: float,
    years: int,
    training_share: float,
    utilisation: float,
    transceivers: float,
    transceiver_w: float,
    overhead: float,
    as_json: bool,
    **asked: Any,
) -> None:
    """Users x requests x tokens, growing: chips, megawatts, transceivers; serving beside training."""
    from headway.planner.demand import Demand, fleet_report

    with one_line():
        work = workload(asked)
        _, where = taken(asked)
        demand = Demand(
            users,
            requests_per_day,
            peak,
            growth,
            years,
            training_share,
            utilisation,
            transceivers,
            transceiver_w,
            overhead,
        )
        report = fleet_report(where, work, demand, usd_per_chip_hour)
    show(report, as_json)


@click.command("lifetime")
@MODEL
@CATALOG
@JSON
@option("--training-tokens", type=COUNT, default="15T", help="Tokens that the model was trained on.")
@option("--tokens-per-s", type=COUNT, default="50M", help="Output tokens that the whole fleet serves.")
@option("--days", type=FACTOR, default=60.0, help="Days for which the model is served.")
@option("--input-over-output", type=Number(0, 1e6), default=4.0, help="New prompt tokens an output token.")
@option("--training-mfu", type=PART, default=0.4, help="Share of the chips' FLOP/s that training gets.")
@option("--serving-mfu", type=PART, default=0.2, help="Share of the chips' FLOP/s that serving gets.")
def lifetime_question(
    training_tokens: float,
    tokens_per_s: float,
    days: float,
    input_over_output: float,
    training_mfu: float,
    serving_mfu: float,
    model: str,
    overlays: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Tokens that a model was trained on against those that it serves in its life."""
    from headway.planner.lifetime import lifetime_report

    with one_line():
        _, shape, _ = look_up(model, overlays)
        report = lifetime_report(
            model, shape, training_tokens, tokens_per_s, days, input_over_output, training_mfu, serving_mfu
        )
    show(report, as_json)


COMMANDS = (price_question, fast_mode_question, implied_question, fleet_question, lifetime_question)
