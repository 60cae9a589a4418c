"""A directory of converted models: each appears whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from headway.engine.errors import ModelError

_STAGING = ".staging-"
_ABANDONED_S = 24 * 3600


def cache_dir() -> Path:
    """$HEADWAY_CACHE, or headway under $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("HEADWAY_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headway"


def cached_model(name: str, build: Callable[[Path], None]) -> Path:
    """The cached model of that name, built first when it is not there.

    `build` fills a directory beside it, which is renamed when complete; one that fails or is interrupted leaves
    nothing. Raises ModelError when the cache cannot be written.
    """
    models = cache_dir() / "models"
    final = models / name
    if final.is_dir():
        return final
    try:
        models.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(models)
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=models) as staging:
            built = Path(staging) / name
            built.mkdir()
            build(built)
            _publish(built, final)
    except OSError as error:
        raise ModelError(f"cannot write the model cache {models}: {error.strerror or error}") from None
    return final


def file_sha256(path: Path) -> str:
    """Hexadecimal. Raises ModelError when the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from None


def _publish(built: Path, final: Path) -> None:
    try:
        built.rename(final)
    except OSError:
        if not final.is_dir():  # Otherwise another process was faster, with the same content.
            raise


def _remove_abandoned(models: Path) -> None:
    """Staging directories whose process was killed."""
    for path in models.glob(f"{_STAGING}*"):
        if time.time() - path.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)
