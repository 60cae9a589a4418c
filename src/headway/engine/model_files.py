"""The small files of a model directory, read with limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.engine.errors import ModelError

MAX_LAYERS = 1024
MAX_CONFIG_BYTES = 4 * 1024 * 1024
MAX_INDEX_BYTES = 64 * 1024 * 1024
MAX_TOKENIZER_BYTES = 128 * 1024 * 1024


def read_json(path: Path, limit_bytes: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """A JSON object. Raises ModelError when the file is missing, too large or something else."""
    try:
        size_bytes = path.stat().st_size
        if size_bytes > limit_bytes:
            raise ModelError(f"{path} has {size_bytes} bytes; the limit is {limit_bytes}")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} must hold a JSON object, not {type(value).__name__}")
    return value


def read_shape(model_dir: Path) -> ModelShape:
    """The shape that `config.json` describes. Raises ModelError for one that is missing or not supported."""
    path = model_dir / "config.json"
    config = read_json(path)
    if config.get("quantization_config"):
        raise ModelError(f"{path}: quantization_config is set; only fp32, fp16 and bf16 weights are supported")
    layers = config.get("num_hidden_layers")
    if isinstance(layers, int) and layers > MAX_LAYERS:
        raise ModelError(f"{path}: num_hidden_layers is {layers}; the limit is {MAX_LAYERS}")
    try:
        return shape_from_config(config)
    except ShapeError as error:
        raise ModelError(f"{path}: {error}") from None
    except (TypeError, AttributeError, ValueError, IndexError, KeyError, ZeroDivisionError) as error:
        raise ModelError(f"{path}: a key has a value of the wrong type: {error}") from None


def read_tokenizer(model_dir: Path, vocab: int) -> tokenizers.Tokenizer | None:
    """The tokenizer, or None where the directory has no `tokenizer.json`.

    Raises ModelError when it can produce an id that the embedding has no row for.
    """
    path = model_dir / "tokenizer.json"
    if not path.exists():
        return None
    read_json(path, MAX_TOKENIZER_BYTES)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises bare Exception for anything wrong in the file.
        raise ModelError(f"{path} is not a tokenizer: {error}") from None
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if largest >= vocab:
        raise ModelError(f"{path} has token id {largest}, but model.embed_tokens.weight has {vocab} rows")
    return tokenizer


def eos_token_ids(model_dir: Path, tokenizer: tokenizers.Tokenizer | None) -> tuple[int, ...]:
    """Ids that end a text, ascending: from the generation config, the config and the tokenizer's `eos_token`."""
    ids: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        path = model_dir / name
        if path.exists():
            ids.update(_ids(read_json(path).get("eos_token_id"), path))
    path = model_dir / "tokenizer_config.json"
    if tokenizer is not None and path.exists():
        token = read_json(path).get("eos_token")
        text = token.get("content") if isinstance(token, dict) else token
        token_id = tokenizer.token_to_id(text) if isinstance(text, str) else None
        ids.update(() if token_id is None else (token_id,))
    return tuple(sorted(ids))


def _ids(value: object, path: Path) -> list[int]:
    values: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in values):
        raise ModelError(f"{path}: eos_token_id must be a token id or a list of them, not {value!r}")
    return values
