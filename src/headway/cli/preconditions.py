"""Options that are read only beside others: tables of what each needs, and one refusal for all that lack it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource


@dataclass(frozen=True, slots=True)
class ReadIf:
    """These options, by their parameters' names, are read only where `holds`, which finds under "given" what stands on
    the command line; `otherwise` says so to a user.
    """

    options: tuple[str, ...]
    holds: Callable[[Mapping[str, Any]], object]
    otherwise: str


class Beside(click.Option):
    """Is read only where another option is given, or (`instead`) only where it is not."""

    def __init__(self, *names: Any, other: str, instead: bool = False, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self._other, self._instead = other, instead

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if self.name in opts and (self._other in opts) == self._instead:
            word = "not" if self._instead else "only"
            raise click.UsageError(f"{self.opts[0]}: {word} with --{self._other.replace('_', '-')}", ctx)
        return super().handle_parse_result(ctx, opts, args)


def given_options() -> frozenset[str]:
    """Names of the parameters that stand on the command line."""
    context = click.get_current_context()
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )


def refuse_unread(options: Mapping[str, Any], given: Collection[str], table: Iterable[ReadIf]) -> None:
    """Raises UsageError for those of `given` that would be ignored."""
    for rule in table:
        unread = [name for name in rule.options if name in given]
        if unread and not rule.holds({**options, "given": given}):
            raise click.UsageError(f"{spelt(unread)}: {rule.otherwise}")


def spelt(names: Iterable[str]) -> str:
    """As they are written on the command line, in the order given."""
    known = {param.name: param.opts[0] for param in click.get_current_context().command.params}
    return ", ".join(known.get(name) or name for name in names)
