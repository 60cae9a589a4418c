"""From what a user calls a model to a directory with its config, weights and tokenizer."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import huggingface_hub
from huggingface_hub.utils.tqdm import disable_progress_bars

from headway.engine import default_model
from headway.engine.errors import ModelError
from headway.engine.gguf_conversion import convert_gguf
from headway.engine.model_cache import cached_model, file_sha256
from headway.engine.progress import Report, quiet

_FORMAT = "v1"
"""In the names of converted models; a conversion that writes something else gets another."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_GOT = re.compile(r"Got: \w+: ")
"""What the hub's library says before the error that it had."""
_HUB_FILES = ["config.json", "generation_config.json", "tokenizer*.json", "special_tokens_map.json"]
_HUB_FILES += ["chat_template*", "*.jinja", "*.safetensors", "model.safetensors.index.json", "tokenizer.model"]


def resolve_model(name: str | None, progress: Report = quiet) -> Path:
    """`name`: nothing for the default model, a directory, a `.gguf` file, or a Hugging Face hub id.

    Raises ModelError with one line that says what is wrong.
    """
    if name is None:
        return _default(progress)
    path = _path(name)
    if os.path.isdir(path):
        return _directory(path)
    if path.suffix == ".gguf":
        if not os.path.isfile(path):
            raise ModelError(f"there is no file {path}")
        return cached_model(
            f"{path.stem}-{file_sha256(path)[:16]}-{_FORMAT}", lambda out: convert_gguf(path, out, progress)
        )
    if os.path.exists(path) or name.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(name):
        raise ModelError(f"model {name!r} is neither a directory, nor a .gguf file, nor a Hugging Face hub id")
    return _from_hub(name)


def display_name(name: str | None) -> str:
    """What the API calls the model."""
    if name is None:
        return default_model.NAME
    path = _path(name)
    return path.resolve().name if os.path.exists(path) else name


def _path(name: str) -> Path:
    """`os.path` takes what cannot be a path, or nobody's home, for something that is not there."""
    return Path(os.path.expanduser(name))


def _default(progress: Report) -> Path:
    def build(out: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".download-", dir=out.parent) as folder:
            convert_gguf(default_model.download_default_gguf(Path(folder), progress), out, progress)

    return cached_model(f"{default_model.NAME}-{default_model.GGUF_SHA256[:16]}-{_FORMAT}", build)


def _directory(path: Path) -> Path:
    if not (path / "config.json").is_file():
        raise ModelError(f"{path} has no config.json: it is not a Hugging Face model directory")
    if not any(path.glob("*.safetensors")):
        raise ModelError(f"{path} has no .safetensors file")
    return path


def _from_hub(name: str) -> Path:
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        path = Path(huggingface_hub.snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # Network, HTTP, validation and disk errors have no common base.
        first = next(iter(_GOT.sub("", str(error)).strip().splitlines()), type(error).__name__)
        raise ModelError(
            f"there is no directory {name}, and the Hugging Face hub did not give a model of this id: {first} "
            "(names of `headway plan list` are for planning: what is served has weights)"
        ) from None
    return _directory(path)
