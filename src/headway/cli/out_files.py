"""Files that a command is to write: what cannot be written is said before the work, not after it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from headway.cli.quantities import NamedPath


class OutFile(NamedPath):
    """A file in a directory that is there and can be written to. `endings` of its name; none: any.

    `is_new`: nothing may be there yet.
    """

    is_written = True

    def __init__(self, *endings: str, is_new: bool = False) -> None:
        super().__init__(dir_okay=False, readable=False, path_type=Path)
        self.endings = endings
        self._is_new = is_new

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(super().convert(value, param, ctx))
        if self.endings and not path.name.lower().endswith(self.endings):
            self.fail(f"{path.name!r} must end in {' or '.join(self.endings)}", param, ctx)
        if reason := self._refused(path):
            self.fail(f"{str(path)!r}: {reason}", param, ctx)
        return path

    def _refused(self, path: Path) -> str:
        try:
            if not path.exists():
                return _not_to_be_made(path)
            if self._is_new:
                return "File exists"
            if not path.is_file():
                return "it is no file"
            return "" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "Permission denied"
        except (OSError, ValueError) as error:
            return getattr(error, "strerror", None) or str(error)


def _not_to_be_made(path: Path) -> str:
    """Why not; only trying tells."""
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    try:
        path.open("xb").close()
    except OSError as error:
        return error.strerror or str(error)
    with suppress(OSError):
        path.unlink()
    return ""


CHART_FILE = OutFile(".html", ".svg", ".png")
