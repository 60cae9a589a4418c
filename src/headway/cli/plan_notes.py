"""What is said beside a report's own assumptions: of the model, its formats and the lengths asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from headway.cli.preconditions import given_options

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.shape import ModelShape

_KEPT = "headway.plan.notes"
_FORMATS = {"weights", "formats"}


def note(name: str, model: ModelShape, config: Mapping[str, Any], precisions: Sequence[Precision]) -> None:
    """Keeps what there is to say about the MODEL of the command that runs; nothing about others beside it."""
    from headway.planner.notes import in_formats, shipped, too_long

    context = click.get_current_context(silent=True)
    if context is None or context.params.get("model") != name:
        return
    said = [*too_long(name, model, _tokens(context.params))]
    if _FORMATS & context.params.keys():
        said += in_formats(model, precisions)
        if not _FORMATS & given_options():
            said += shipped(config, model, precisions[0])
    kept = context.meta.setdefault(_KEPT, {})
    kept.update(dict.fromkeys(said))


def notes() -> tuple[str, ...]:
    context = click.get_current_context(silent=True)
    return () if context is None else tuple(context.meta.get(_KEPT, ()))


def noted(report: Any) -> Any:
    """A report with them among its assumptions."""
    said = notes()
    return replace(report, assumptions=(*report.assumptions, *said)) if said else report


def _tokens(asked: Mapping[str, Any]) -> int:
    """Of the longest sequence; 0: the question is about none."""
    lengths = [asked.get("context"), asked.get("tokens"), *(asked.get("contexts") or ())]
    if asked.get("context") is None and "output" in asked:
        from headway.cli.plan_options import OUTPUT, PROMPT

        lengths.append((asked["prompt"] or PROMPT) + (asked["output"] or OUTPUT))
    return max((tokens for tokens in lengths if tokens), default=0)
