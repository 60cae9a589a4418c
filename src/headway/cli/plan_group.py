"""A group whose commands take each option once, unless it is one of those that may be given several times."""

from __future__ import annotations

from collections import Counter

import click


class OnceGroup(click.Group):
    """Without it the last of several values would count, and nobody be told."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _check_once(command, rest)
        return name, command, rest


def _check_once(command: click.Command, args: list[str]) -> None:
    """Raises UsageError; what else is wrong with `args` is said where the command reads them."""
    try:
        order = command.make_parser(click.Context(command)).parse_args(list(args))[2]
    except click.UsageError:
        return
    for param, times in Counter(order).items():
        if times > 1 and isinstance(param, click.Option) and not (param.multiple or param.is_flag):
            raise click.UsageError(f"{param.opts[0]} takes one value and is there {times} times")
