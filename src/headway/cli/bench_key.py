"""The key that `headway bench` shows the server."""

from __future__ import annotations

from collections.abc import Mapping

import click

_NAMES = ("HEADWAY_API_KEY", "OPENAI_API_KEY")


def api_key(environ: Mapping[str, str]) -> str | None:
    """The first that is set. Raises UsageError for one that no header can carry."""
    name = next((name for name in _NAMES if environ.get(name)), None)
    if name is None:
        return None
    key = environ[name]
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise click.UsageError(f"{name}: a key has only ASCII letters, digits and signs, and no space around it")
    return key
