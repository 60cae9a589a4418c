"""A group whose errors are one line each."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

INTERRUPTED = 130


def in_options(message: str, options: Mapping[str, str]) -> str:
    """A message about fields, with the options that set them; `options`: field → option."""
    return re.sub("|".join(rf"\b{field}\b" for field in options), lambda match: options[match[0]], message)


def _check_values(args: Sequence[str]) -> None:
    """Raises UsageError for an empty one, which is no name, no number and no path, and for what is not text."""
    for before, argument in zip(("", *args), args, strict=False):
        name, equals, value = argument.partition("=")
        option = name if name.startswith("--") else before if before.startswith("-") else "an argument"
        if not argument or (name.startswith("--") and equals and not value):
            raise click.UsageError(f"{option}: a value is needed, not ''")
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            shown = argument.encode("utf-8", "replace").decode()
            raise click.UsageError(f"{option}: {shown!r} has bytes that are not UTF-8")


def _end_as_on_ctrl_c() -> None:
    """Who is told to end keeps what is done. Only a program's main thread may say so."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.default_int_handler)


class OneLineGroup(click.Group):
    """A user's mistake ends with its exit code, 2 for an option and 1 for anything else, and one line on stderr."""

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        standalone = extra.pop("standalone_mode", True)
        if not standalone:
            return super().main(args, standalone_mode=False, **extra)
        try:
            _check_values(sys.argv[1:] if args is None else args)
            _end_as_on_ctrl_c()
            result = super().main(args, standalone_mode=False, **extra)
        except click.ClickException as error:
            click.echo(f"headway: {' '.join(error.format_message().split())}", err=True)
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        sys.exit(result if isinstance(result, int) else 0)
