"""What the questions of `headway plan` share: their options, how they look things up, how they fail."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from headway.cli.plan_notes import note, note_error
from headway.cli.preconditions import given_options
from headway.cli.quantities import NamedPath, Number, Seconds

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.parallelism import Parallelism
    from headway.arithmetic.shape import ModelShape
    from headway.catalog import Catalog
    from headway.planner.lengths import Lengths
    from headway.roofline import Calibration


class Whole(click.IntRange):
    """A whole number. With k or M behind it nobody knows whether thousands or 1,024 are meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number, all of its digits written", param, ctx)
        return int(super().convert(number, param, ctx))


class Amount(Number):
    """A number, alone or with k, M, G or T behind it."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if match := _AMOUNT.fullmatch(str(value)):
            value = float(match[1]) * _FACTORS[match[2]]
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not an amount: a number, alone or with one of {', '.join(_FACTORS)}", param, ctx)
        return super().convert(number, param, ctx)


_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([kMGT])")
_FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
TOKENS = Whole(1, 1_000_000_000)
BATCH = Whole(1, 10_000_000)
CHIPS = Whole(1, 100_000)
SLO = Number(1e-6, 1e6)
Command = TypeVar("Command", bound=Callable[..., Any])


class Decorator(Protocol):
    def __call__(self, command: Command, /) -> Command: ...


def option(*names: str, **settings: Any) -> Decorator:
    """With its default in the help; what may be given several times is different each time."""
    if settings.get("multiple"):
        settings = {"callback": distinct, **settings}
    return click.option(*names, **{"show_default": True, **settings})


def distinct(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Names are told apart as the catalog does, paths by where they lie. Raises BadParameter."""
    from headway.catalog.system import folded

    seen = set()
    for value in values:
        is_path = isinstance(value, Path) or (isinstance(value, str) and os.path.exists(value))
        key = Path(value).absolute() if is_path else folded(str(value))
        if key in seen:
            raise click.BadParameter(f"{str(value)!r} is there twice", ctx, param)
        seen.add(key)
    return values


def check_beside(names: tuple[str, ...], own: str) -> None:
    """Raises UsageError for what the chart shows anyway, or would show twice."""
    from headway.catalog.system import folded

    for name in names:
        if folded(name) == folded(own):
            raise click.UsageError(f"--beside {name}: the chart has it already")


CATALOG = option(
    "--catalog",
    "overlays",
    multiple=True,
    type=NamedPath(path_type=Path),
    help="Directory of your own chips.csv, systems.csv, prices.csv, models/*.json …",
)
JSON = option("--json", "as_json", is_flag=True, help="One JSON object; SI units, named in the keys.")
SYSTEM = option("--system", default="hgx-h100", help="Chips and links, by name, or a file of headway calibrate.")
NO_ENGINE = "none"
"""Floors only."""
ENGINE = option(
    "--engine", default="vllm", help="Whose fit is shown beside the floor, if there is one: vllm, sglang, trtllm, none."
)

AS_STORED = "[default: as the model's file says, else bf16]"
AS_WEIGHTS = "Number format of the routed experts.  [default: as --weights]"
MODEL = click.argument("model")
_MODEL = (
    MODEL,
    option("--weights", help=f"Number format of the weights, as fp8 or mxfp4.  {AS_STORED}"),
    option("--experts", help=AS_WEIGHTS),
    option("--kv", help=f"Number format of the cache.  {AS_STORED}"),
    CATALOG,
    JSON,
)
_CUT = (
    option("--tensor", type=CHIPS, default=1, help="Chips that share every matrix."),
    option("--pipeline", type=CHIPS, default=1, help="Stages of layers."),
    option("--expert", type=CHIPS, default=1, help="Chips that experts are dealt out to."),
    option("--data", type=CHIPS, default=1, help="Groups of sequences."),
    option("--context-parallel", type=CHIPS, default=1, help="Chips that share each cache."),
)
PROMPT, OUTPUT = 8192, 1024
_SEARCH = (
    MODEL,
    option("--system", "systems", multiple=True, default=["hgx-h100"], help="Chips and links: one name or several."),
    option("--weights", "formats", multiple=True, help=f"Number formats: one or several.  {AS_STORED}"),
    option("--experts", help=AS_WEIGHTS),
    option("--kv", help=f"Number format of the cache.  {AS_STORED}"),
    option(
        "--engine", default="vllm", help="Its fits are used if every chip has one: vllm, sglang, trtllm; none: floors."
    ),
    option("--prompt", type=TOKENS, help=f"Tokens of each prompt.  [default: {PROMPT}]", show_default=False),
    option("--cached", type=Whole(min=0), help="Tokens of it found in the cache."),
    option("--output", type=TOKENS, help=f"Tokens generated.  [default: {OUTPUT}]", show_default=False),
    option("--slo-ttft", "slo_ttft_s", type=Seconds(), help="Most to the first token: 0.5, 0.5s or 500ms."),
    option("--context", type=TOKENS, help="In place of prompts: decode only, of sequences this long."),
    option("--max-chips", type=Whole(1, 72), default=72, help="Most chips of one unit of replicas."),
    CATALOG,
    JSON,
)


def about_a_model(command: Command) -> Command:
    """MODEL and its formats."""
    return _with(_MODEL, command)


def with_a_cut(command: Command) -> Command:
    """How the model is cut over chips."""
    return _with(_CUT, command)


def searching(command: Command) -> Command:
    """MODEL, and what is searched over."""
    return _with(_SEARCH, command)


def _with(options: tuple[Decorator, ...], command: Command) -> Command:
    for decorate in reversed(options):
        command = decorate(command)
    return command


@contextmanager
def one_line() -> Iterator[None]:
    """A user's mistake becomes one line on stderr."""
    from headway.arithmetic.shape import ShapeError
    from headway.catalog import CatalogError

    try:
        yield
    except (CatalogError, ShapeError) as error:
        raise click.ClickException(str(error)) from None


def look_up(
    model: str,
    overlays: tuple[Path, ...],
    weights: str | None = None,
    experts: str | None = None,
    kv: str | None = None,
) -> tuple[Catalog, ModelShape, Precision]:
    """Raises CatalogError or ShapeError."""
    from headway.arithmetic.hf_config import shape_from_config
    from headway.arithmetic.hf_quantization import chosen_precision
    from headway.arithmetic.shape import ShapeError
    from headway.catalog import load_catalog

    catalog = load_catalog(overlays)
    config = catalog.config(model)
    try:
        shape = shape_from_config(config)
    except ShapeError as error:
        raise ShapeError(f"{model}: {error}") from None
    check_experts(experts, shape, model)
    chosen = chosen_precision(config, shape, weights, kv, experts)
    note(model, shape, config, [chosen])
    return catalog, shape, chosen


def check_experts(number_format: str | None, shape: ModelShape, model: str) -> None:
    """Raises UsageError for a format of what the model does not have."""
    if number_format is not None and not any(layer.feed_forward.experts for layer, _ in shape.layer_counts):
        raise click.UsageError(f"--experts {number_format}: {model} has no routed experts")


def fit_for(catalog: Catalog, chip: str, engine: str) -> Calibration | None:
    """As `_fit`. How far it is off becomes a note."""
    fit = _fit(catalog, chip, engine)
    if fit is not None:
        note_error(chip, fit)
    return fit


def _fit(catalog: Catalog, chip: str, engine: str) -> Calibration | None:
    """That of the chip; else, for a GPU, that of any chip under this engine, which says so. None: nothing like it was
    measured, or `engine` is NO_ENGINE. Raises CatalogError for an engine that no fit is of.
    """
    from headway.catalog import CatalogError
    from headway.catalog.calibration import engines, nearest
    from headway.catalog.machine import is_machine_file
    from headway.roofline import calibration

    if engine == NO_ENGINE:
        return None
    if engine not in (known := engines(catalog.calibrations)):
        raise CatalogError(f"--engine {engine!r} must be one of {', '.join(known)} or {NO_ENGINE}")
    if is_machine_file(chip):
        if "engine" in given_options():
            raise CatalogError(f"--engine {engine}: {chip} has a fit of its own; --engine {NO_ENGINE} leaves it out")
        return calibration(catalog.calibration(chip, engine))
    if (found := nearest(catalog.calibrations, chip, engine)) is None:
        return None
    name, figures = found
    measured = name.startswith(f"{chip}/")
    return calibration(figures, measured) if measured or catalog.chip(chip).kind == "gpu" else None


def cut_from(tensor: int, pipeline: int, expert: int, data: int, context_parallel: int) -> Parallelism:
    from headway.arithmetic.parallelism import Parallelism

    return Parallelism(tensor, pipeline, expert, data, context_parallel)


def load_from(
    prompt: int | None, cached: int | None, output: int | None, context: int | None, slo_ttft_s: float | None
) -> Lengths | int:
    """Raises ShapeError for options that contradict each other."""
    from headway.arithmetic.shape import ShapeError
    from headway.planner.lengths import Lengths

    if context is None:
        return Lengths(prompt or PROMPT, cached or 0, output or OUTPUT)
    if any(given is not None for given in (prompt, cached, output, slo_ttft_s)):
        raise ShapeError("--context is decode only: leave it out, or --prompt, --cached, --output and --slo-ttft")
    return context


def search_space(
    model: str,
    systems: tuple[str, ...],
    formats: tuple[str, ...],
    experts: str | None,
    kv: str | None,
    engine: str,
    prompt: int | None,
    cached: int | None,
    output: int | None,
    slo_ttft_s: float | None,
    context: int | None,
    max_chips: int,
    overlays: tuple[Path, ...],
) -> dict[str, Any]:
    """Arguments that every search of the planner takes."""
    from headway.arithmetic.hf_quantization import chosen_precision

    catalog, shape, _ = look_up(model, overlays, experts=experts)
    config = catalog.config(model)
    precisions = [chosen_precision(config, shape, name, kv, experts) for name in formats or (None,)]
    note(model, shape, config, precisions)
    chosen = [catalog.system(name) for name in systems]
    fits = {s.chip.name: _fit(catalog, s.chip.name, engine) for s in chosen}
    return {
        "name": model,
        "model": shape,
        "systems": chosen,
        "precisions": precisions,
        "load": load_from(prompt, cached, output, context, slo_ttft_s),
        "fitted": {chip: fit for chip, fit in fits.items() if fit is not None},
        "max_chips": max_chips,
        "slo_ttft_s": slo_ttft_s,
    }
