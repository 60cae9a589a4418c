"""What is said beside a report's own assumptions: of the model, its formats, the lengths asked about, and the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from headway.cli.preconditions import given_options

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.shape import ModelShape
    from headway.roofline import Calibration

_KEPT = "headway.plan.notes"
_FORMATS = {"weights", "formats"}


def note(name: str, model: ModelShape, config: Mapping[str, Any], precisions: Sequence[Precision]) -> None:
    """Keeps what there is to say about the MODEL of the command that runs; nothing about others beside it."""
    from headway.planner.notes import cache_as_stored, in_formats, shipped, too_long

    context = click.get_current_context(silent=True)
    if context is None or context.params.get("model") != name:
        return
    said = [*too_long(name, model, _tokens(context.params))]
    if _FORMATS & context.params.keys():
        said += in_formats(model, precisions)
        if not _FORMATS & given_options():
            said += shipped(config, model, precisions[0])
        if "kv" not in given_options():
            said += cache_as_stored(config)
    _keep(context, said)


def note_error(chip: str, fit: Calibration) -> None:
    """Keeps how far off a fit is, for whoever uses it."""
    from headway.planner.basis import error_of

    context = click.get_current_context(silent=True)
    if context is not None:
        _keep(context, [error_of(chip, fit)])


def _keep(context: click.Context, said: Sequence[str]) -> None:
    context.meta.setdefault(_KEPT, {}).update(dict.fromkeys(said))


def with_notes(assumptions: tuple[str, ...]) -> tuple[str, ...]:
    """Each of them once."""
    context = click.get_current_context(silent=True)
    said = () if context is None else context.meta.get(_KEPT, ())
    return tuple(dict.fromkeys((*assumptions, *said)))


def noted(report: Any) -> Any:
    """A report with them among its assumptions."""
    return replace(report, assumptions=with_notes(report.assumptions))


def _tokens(asked: Mapping[str, Any]) -> int:
    """Of the longest sequence; 0: the question is about none."""
    lengths = [asked.get("context"), asked.get("tokens"), *(asked.get("contexts") or ())]
    if asked.get("context") is None and "output" in asked:
        from headway.cli.plan_options import OUTPUT, PROMPT

        lengths.append((asked["prompt"] or PROMPT) + (asked["output"] or OUTPUT))
    return max((tokens for tokens in lengths if tokens), default=0)
