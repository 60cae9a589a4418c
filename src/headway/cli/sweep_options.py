"""Options of `headway simulate` for a grid of runs and for charts, and what `--sweep` means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import click

from headway.catalog.system import folded
from headway.cli.out_files import CHART_FILE
from headway.cli.quantities import ByteSize, Seconds

Command = Callable[..., None]
DEFAULT = "default"
"""As a value: the option's own default."""
TABLE_ENDINGS = (".parquet", ".jsonl")
"""Of a run, of a sweep."""
_OF_SWEEPS = ("jobs", "ray", "x", "y", "by")
_OF_ONE_RUN = ("trace_out", "replay", "changes")
NOT_READ = frozenset(("sweep", "chart", "out", "as_json", "help", "trace_limit", *_OF_SWEEPS, *_OF_ONE_RUN))
"""By a point: they say where it runs and what is done with its result."""


def sweep_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option(
                "--sweep", multiple=True, metavar="NAME=V1,V2,…", help="Any option, at each value; repeat for a grid."
            ),
            click.option(
                "--jobs", type=click.IntRange(1, 1024), help="Points of a sweep at a time.  [default: one a core]"
            ),
            click.option("--ray", metavar="ADDRESS", help="Run them on a started Ray cluster: HOST:PORT, or auto."),
            click.option(
                "--chart",
                type=CHART_FILE,
                help="Draw it: .html, .svg or .png. Of a sweep: interactivity against throughput.",
            ),
            click.option("--x", metavar="NAME", help="Of a sweep's chart: a swept option, or a figure as ttft-p99."),
            click.option("--y", metavar="NAME", help="The same."),
            click.option("--by", metavar="NAME", help="The swept option that has colours.  [default: the first left]"),
        )
    ):
        command = option(command)
    return command


def check_sweep(options: Mapping[str, Any]) -> None:
    """Raises UsageError for options that do not go together."""
    if (options["x"] is None) != (options["y"] is None):
        raise click.UsageError("--x and --y go together")
    if options["jobs"] is not None and options["ray"] is not None:
        raise click.UsageError("choose one: --jobs (of this machine) or --ray (as many as the cluster has cores)")
    if options["out"] is not None and options["out"].suffix != TABLE_ENDINGS[bool(options["sweep"])]:
        table, rows = TABLE_ENDINGS
        raise click.UsageError(f"--out {options['out'].name}: must end in {rows} of a sweep, else in {table}")


def axes_of(texts: Iterable[str], given: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """Values by option, without its dashes: numbers, truths, or the text that was given. Raises UsageError for what is
    no option of the command or no value of it.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        name = name.strip().removeprefix("--").replace("_", "-")
        param = _option(name)
        if name in found:
            raise click.UsageError(f"--sweep {name} is there twice: one list for each option")
        if param.name in given:
            raise click.UsageError(f"choose one: --{name}, or --sweep {name}=…")
        found[name] = _values(param, text, listed)
    return found


def units_of(names: Iterable[str]) -> dict[str, str]:
    """Of those options whose values are times or sizes."""
    kinds = {Seconds: "s", ByteSize: "B"}
    types = {name: _option(name).type for name in names}
    return {name: unit for name, type in types.items() for kind, unit in kinds.items() if isinstance(type, kind)}


def options_at(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Of the command at a point of its sweep. Raises UsageError."""
    swept: dict[str, Any] = {}
    for name, value in values.items():
        param = _option(name)
        if value != DEFAULT:
            swept[str(param.name)] = _parsed(param, value)
    return {**options, **swept, "given": options["given"] | swept.keys()}


def _values(param: click.Option, text: str, listed: str) -> tuple[Any, ...]:
    apart = ";" if ";" in listed else ","
    texts = [value.strip() for value in listed.removesuffix(";").split(apart)]
    if "" in texts:
        raise click.UsageError(f"--sweep {text!r}: write NAME=V1,V2 (or NAME=V1;V2 where values have commas)")
    values = tuple(_plain(param, value) for value in texts)
    # Names are told apart as the catalog does.
    kept = {str(value) if str(param.name) not in ("model", "system") else folded(str(value)) for value in values}
    if len(kept) < len(values):
        raise click.UsageError(f"--sweep {text!r}: a value is there twice")
    return values


def _option(name: str) -> click.Option:
    known = {
        opt.removeprefix("--"): param
        for param in click.get_current_context().command.params
        if isinstance(param, click.Option) and param.name not in NOT_READ
        for opt in param.opts
    }
    if name not in known:
        near = get_close_matches(name, known, 3)
        hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(known)}"
        raise click.UsageError(f"--sweep: no option {name!r} to sweep: {hint}")
    return known[name]


def _parsed(param: click.Option, value: Any) -> Any:
    text: Any = str(value)
    if param.multiple:
        text = [part.strip() for part in text.split("&")]
    return param.process_value(click.get_current_context(), text)


def _plain(param: click.Option, text: str) -> Any:
    value = text if text == DEFAULT else _parsed(param, text)
    return value if isinstance(value, int | float) else text
