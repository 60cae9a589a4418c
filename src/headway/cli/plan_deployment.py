"""Options that several questions share: a model on a system, what each request is like, what a chip costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headway.cli.out_files import CHART_FILE
from headway.cli.plan_options import (
    ENGINE,
    NO_ENGINE,
    SYSTEM,
    TOKENS,
    Decorator,
    Whole,
    about_a_model,
    cut_from,
    fit_for,
    look_up,
    option,
    with_a_cut,
)
from headway.cli.preconditions import Beside
from headway.cli.quantities import Number

if TYPE_CHECKING:
    from headway.catalog import Catalog, System
    from headway.planner.deployment import Deployment
    from headway.planner.price import Workload

Command = TypeVar("Command", bound=Callable[..., Any])
SHARE = Number(0, 1)
PART = Number(1e-6, 1)
"""A share that is divided by."""
FACTOR = Number(1e-6, 1e6)
MONEY = Number(0, 1e9)
_CUT = ("tensor", "pipeline", "expert", "data", "context_parallel")
_MODEL = ("model", "weights", "experts", "kv", "overlays")
CHART = option("--chart", type=CHART_FILE, help="Draw it: a file ending in .html, .svg or .png.")
TITLE = option("--title", cls=Beside, other="chart", help="Title of the chart.")
_RENT = "[default: the chip's rent in the catalog]"
HOURLY = option("--usd-per-chip-hour", type=Number(1e-6, 1e9), help=_RENT, show_default=False)
LIFE = option("--life-years", type=FACTOR, default=4.0, help="Years over which bought memory is paid off.")


def on_a_system(command: Command) -> Command:
    """MODEL, its formats, the system, the engine and the cut."""
    return about_a_model(SYSTEM(ENGINE(with_a_cut(command))))


def by_floors(command: Command) -> Command:
    """The same for questions that no fit has an answer to."""
    return about_a_model(SYSTEM(with_a_cut(command)))


_REACHED = 0.7
MFU = option(
    "--mfu",
    type=PART,
    help=f"Share of its floor's speed that a prompt reaches.  [default: by the engine's fit, else {_REACHED}]",
    show_default=False,
)


def a_request(batch: int = 32, prompt: int = 1024, output: int = 256) -> Decorator:
    """What each request is like."""

    def decorate(command: Command) -> Command:
        command = option("--batch", type=Whole(1, 10_000_000), default=batch, help="Sequences decoding.")(command)
        command = option("--output", type=TOKENS, default=output, help="Tokens generated.")(command)
        command = option("--cached", type=Whole(min=0), default=0, help="Tokens of it found in the cache.")(command)
        return option("--prompt", type=TOKENS, default=prompt, help="Tokens of the prompt.")(command)

    return decorate


def taken(options: dict[str, Any]) -> tuple[Catalog, Deployment]:
    """Takes its own options from all of a command's: without an engine floors, without a cut one chip. Raises
    CatalogError or ShapeError.
    """
    from headway.planner.deployment import Deployment

    catalog, shape, precision = look_up(**{name: options[name] for name in _MODEL})
    system, engine = catalog.system(options.pop("system")), options.pop("engine", NO_ENGINE)
    cut = cut_from(*(options.pop(name, 1) for name in _CUT))
    cut.check(shape)
    name = options["model"]
    for key in _MODEL:
        del options[key]
    fit = fit_for(catalog, system.chip.name, engine)
    reached = options.pop("mfu", 1.0 if fit is None else None)
    if reached is None and fit is None:
        reached = _REACHED
    return catalog, Deployment(name, shape, system, precision, cut, fit, reached)


def workload(options: dict[str, Any]) -> Workload:
    from headway.planner.price import Workload

    return Workload(*(options.pop(name) for name in ("prompt", "cached", "output", "batch")))


def hourly(given: float | None, system: System) -> float:
    """Raises CatalogError if neither is known."""
    from headway.catalog import CatalogError

    price = given if given is not None else system.chip.rent_usd_per_hour
    if price is None:
        raise CatalogError(f"no rent of {system.chip.name} is known: give --usd-per-chip-hour")
    return price


def charted(command: Command) -> Command:
    """--chart and --title."""
    return CHART(TITLE(command))


def draw(spec: Callable[[], Mapping[str, Any]], chart: Path | None) -> None:
    """Only where a chart is asked for."""
    if chart is None:
        return
    from headway.report.rendering import write_chart

    with drawn():
        write_chart(spec(), chart)


@contextmanager
def drawn() -> Iterator[None]:
    """A chart that cannot be written becomes one line on stderr."""
    from headway.report.rendering import ChartError

    try:
        yield
    except ChartError as error:
        raise click.ClickException(str(error)) from None
