"""What the points of a sweep depend on: their options, and what is in the files that these name."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.catalog.machine import ENDINGS
from headway.cli.sweep_options import NOT_READ

if TYPE_CHECKING:
    from headway.simulator.sweep import Run, Values

MAX_FILES = 10_000
"""Of a directory of own facts."""


@dataclass(frozen=True, slots=True)
class Files:
    """Each is read once for a sweep."""

    digests: dict[Path, str] = field(default_factory=dict)

    def identity(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """As JSON can hold it. Raises SweepError for a file that cannot be read again for each point."""
        known = {name: self._content(value) for name, value in options.items() if name not in NOT_READ}
        # Which options were given matters only beside those that a machine file sets.
        sets_defaults = any(map(_named, (options["system"], *options["pools"])))
        return known | {"given": known["given"] if sets_defaults else []}

    def _content(self, value: Any) -> Any:
        if isinstance(value, Path):
            return self._digest(value)
        if isinstance(value, frozenset):
            return sorted(value)
        if isinstance(value, tuple):
            return [self._content(item) for item in value]
        return [value, *map(self._digest, _named(value))] if isinstance(value, str) else value

    def _digest(self, path: Path) -> str:
        path = path.absolute()
        if path not in self.digests:
            self.digests[path] = digest(path)
        return self.digests[path]


@dataclass(frozen=True, slots=True)
class SameFiles:
    """A run on another machine, which must have the same files at the same paths."""

    run: Run
    digests: Mapping[Path, str]
    directory: str = field(default_factory=os.getcwd)

    def __call__(self, values: Values) -> Mapping[str, Any]:
        """Raises SweepError, PointError."""
        from headway.simulator.sweep import SweepError

        for path, known in self.digests.items():
            if _digest_there(path) != known:
                raise SweepError(f"{path}: another file on a machine of the cluster")
        if self.digests:
            os.chdir(self.directory)
        return self.run(values)


def digest(path: Path) -> str:
    """Of a file, or of all files in a directory. Raises SweepError."""
    from headway.simulator.sweep import SweepError

    files = sorted(child for child in path.rglob("*") if child.is_file()) if path.is_dir() else [path]
    if len(files) > MAX_FILES or (path.exists() and not all(file.is_file() for file in files)):
        raise SweepError(f"{path}: a sweep needs a file, or a directory of at most {MAX_FILES:,}")
    try:
        digests = [str(file.relative_to(path)) + _of_file(file) for file in files]
    except OSError as error:
        raise SweepError(f"{error.filename}: {error.strerror}") from None
    return hashlib.blake2b("\n".join(digests).encode(), digest_size=16).hexdigest()


_digest_there = cache(digest)


def _of_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _named(text: str) -> list[Path]:
    """Machine files and models on disk that an option's value names."""
    paths = [Path(part) for part in re.split("[,;=]", text)]
    return [path for path in paths if path.suffix in ENDINGS or (path / "config.json").is_file()]
