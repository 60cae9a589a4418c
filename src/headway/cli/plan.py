"""`headway plan`: questions about a model, a system and a workload."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.shape import ModelShape
    from headway.catalog import Catalog

TOKENS = click.IntRange(1, 1_000_000_000)
BATCH = click.IntRange(1, 10_000_000)
CHIPS = click.IntRange(1, 100_000)
Command = Callable[..., None]


@click.group()
def plan() -> None:
    """The arithmetic of inference: memory, roofline, price, energy.

    MODEL is the name of a model in the catalog (`headway plan list`), or a config.json of Hugging Face, or a directory
    that holds one.
    """


def _question(command: Command) -> Command:
    """MODEL and what every question takes; a user's mistake becomes one line."""

    @click.argument("model")
    @click.option("--weights", default="bf16", show_default=True, help="Number format of the weights, as fp8 or mxfp4.")
    @click.option("--experts", help="That of the routed experts.  [default: as --weights]")
    @click.option("--kv", default="bf16", show_default=True, help="Number format of the cache.")
    @click.option(
        "--catalog", "overlays", multiple=True, type=click.Path(path_type=Path), help="Directory of own facts."
    )
    @click.option("--json", "as_json", is_flag=True, help="SI units, named in the keys.")
    @wraps(command)
    def run(**options: Any) -> None:
        _one_line(command, options)

    return run


def _one_line(command: Command, options: dict[str, Any]) -> None:
    from headway.arithmetic.shape import ShapeError
    from headway.catalog import CatalogError

    try:
        command(**options)
    except (CatalogError, ShapeError) as error:
        raise click.ClickException(str(error)) from None


@plan.command("list")
@click.option("--catalog", "overlays", multiple=True, type=click.Path(path_type=Path), help="Directory of own facts.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def list_catalog(**options: Any) -> None:
    """What the catalog knows by name: models, systems, chips, number formats."""
    _one_line(_list_catalog, options)


def _list_catalog(overlays: tuple[Path, ...], as_json: bool) -> None:
    from headway.arithmetic.formats import FORMATS
    from headway.catalog import load_catalog
    from headway.cli.plan_text import show_names

    catalog = load_catalog(overlays)
    names = {
        "models": list(catalog.configs),
        "systems": list(catalog.systems),
        "chips": list(catalog.chips),
        "prices": list(catalog.prices),
        "formats": list(FORMATS),
    }
    show_names(names, as_json)


@plan.command("model")
@_question
def model_question(
    model: str, weights: str, experts: str | None, kv: str, overlays: tuple[Path, ...], as_json: bool
) -> None:
    """What MODEL is: parameters by part, kinds of layers, bytes of weights and cache."""
    from headway.cli.plan_text import show_model
    from headway.planner.model import model_report

    catalog, shape, precision = _asked(model, weights, experts, kv, overlays)
    show_model(model_report(model, shape, precision, catalog.published.get(model.lower())), as_json)


@plan.command("kv")
@_question
@click.option("--chip", default="h100-sxm", show_default=True, help="Whose memory is counted in.")
@click.option("--context", type=TOKENS, default=131_072, show_default=True, help="Tokens of each sequence.")
@click.option("--batch", type=BATCH, default=1, show_default=True, help="Sequences.")
def kv_question(
    model: str,
    weights: str,
    experts: str | None,
    kv: str,
    overlays: tuple[Path, ...],
    as_json: bool,
    chip: str,
    context: int,
    batch: int,
) -> None:
    """Bytes of cache for a token, a context and a batch, and how many chips that is."""
    from headway.cli.plan_text import show_kv
    from headway.planner.kv import kv_report

    catalog, shape, precision = _asked(model, weights, experts, kv, overlays)
    show_kv(kv_report(model, shape, precision, catalog.chip(chip), context, batch), as_json)


@plan.command("roofline")
@_question
@click.option("--system", default="hgx-h100", show_default=True, help="Chips and links, by name.")
@click.option(
    "--engine", default="vllm", show_default=True, help="Whose fit is shown beside the floor, if there is one."
)
@click.option("--context", type=TOKENS, default=8192, show_default=True, help="Tokens of each sequence.")
@click.option("--batch", type=BATCH, default=1, show_default=True, help="Sequences in a decode step.")
@click.option("--tensor", type=CHIPS, default=1, show_default=True, help="Chips that share every matrix.")
@click.option("--pipeline", type=CHIPS, default=1, show_default=True, help="Stages of layers.")
@click.option("--expert", type=CHIPS, default=1, show_default=True, help="Chips that experts are dealt out to.")
@click.option("--data", type=CHIPS, default=1, show_default=True, help="Groups of sequences.")
@click.option("--context-parallel", type=CHIPS, default=1, show_default=True, help="Chips that share each cache.")
def roofline_question(
    model: str,
    weights: str,
    experts: str | None,
    kv: str,
    overlays: tuple[Path, ...],
    as_json: bool,
    system: str,
    engine: str,
    context: int,
    batch: int,
    tensor: int,
    pipeline: int,
    expert: int,
    data: int,
    context_parallel: int,
) -> None:
    """Every operation of a decode and a prefill step against the chip's ridge; the floor of both steps."""
    from headway.arithmetic.parallelism import Parallelism
    from headway.cli.plan_text import show_roofline
    from headway.planner.step import roofline_report
    from headway.roofline import calibration

    catalog, shape, precision = _asked(model, weights, experts, kv, overlays)
    cut, chosen = Parallelism(tensor, pipeline, expert, data, context_parallel), catalog.system(system)
    known = catalog.calibrations.get(f"{chosen.chip.name}/{engine}")
    fitted = calibration(known) if known else None
    show_roofline(roofline_report(model, shape, chosen, precision, cut, context, batch, fitted), as_json)


@plan.command("pareto")
@click.argument("model")
@click.option("--system", "systems", multiple=True, default=["hgx-h100"], show_default=True, help="One or several.")
@click.option("--weights", "formats", multiple=True, default=["bf16"], show_default=True, help="One or several.")
@click.option("--kv", default="bf16", show_default=True, help="Number format of the cache.")
@click.option("--engine", default="vllm", show_default=True, help="Its fits are used if every chip has one.")
@click.option("--context", type=TOKENS, default=8192, show_default=True, help="Tokens of each sequence.")
@click.option("--slo", type=click.FloatRange(0, 1e6, min_open=True), help="Tokens/s that each user must get.")
@click.option("--max-chips", type=click.IntRange(1, 72), default=72, show_default=True, help="Of one replica.")
@click.option("--catalog", "overlays", multiple=True, type=click.Path(path_type=Path), help="Directory of own facts.")
@click.option("--json", "as_json", is_flag=True, help="SI units, named in the keys.")
def pareto(**options: Any) -> None:
    """Interactivity against throughput a chip, over all cuts, batches and formats."""
    _one_line(_pareto, options)


def _pareto(
    model: str,
    systems: tuple[str, ...],
    formats: tuple[str, ...],
    kv: str,
    engine: str,
    context: int,
    slo: float | None,
    max_chips: int,
    overlays: tuple[Path, ...],
    as_json: bool,
) -> None:
    from headway.arithmetic.formats import precision
    from headway.cli.plan_text import show_pareto
    from headway.planner.pareto import pareto_report
    from headway.roofline import calibration

    catalog, shape, _ = _asked(model, "bf16", None, kv, overlays)
    chosen = [catalog.system(name) for name in systems]
    known = {s.chip.name: catalog.calibrations.get(f"{s.chip.name}/{engine}") for s in chosen}
    fitted = {chip: calibration(figures) for chip, figures in known.items() if figures}
    precisions = [precision(name, kv) for name in formats]
    show_pareto(pareto_report(model, shape, chosen, precisions, context, fitted, slo, max_chips), as_json)


def _asked(
    model: str, weights: str, experts: str | None, kv: str, overlays: tuple[Path, ...]
) -> tuple[Catalog, ModelShape, Precision]:
    from headway.arithmetic.formats import precision
    from headway.arithmetic.hf_config import shape_from_config
    from headway.catalog import load_catalog

    catalog = load_catalog(overlays)
    return catalog, shape_from_config(catalog.config(model)), precision(weights, kv, experts)
