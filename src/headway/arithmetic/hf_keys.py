"""Reading keys of a `config.json`, each with a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.arithmetic.layers import ShapeError

Config = Mapping[str, Any]
MAX_COUNT = 1_000_000_000
MAX_NUMBER = 1e15
_TEXT_MODEL = ("text_config", "llm_config", "language_config")


def positive(config: Config, *keys: str) -> int:
    """The first of these keys that is present. Raises ShapeError unless it is a positive integer up to MAX_COUNT."""
    key = next((k for k in keys if config.get(k) is not None), " or ".join(keys))
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ShapeError(f"{key} must be a positive integer, not {value!r}")
    if value > MAX_COUNT:
        raise ShapeError(f"{key} must be at most {MAX_COUNT}")
    return value


def count(config: Config, *keys: str) -> int:
    """As `positive`, but 0 when every key is absent, null or 0."""
    present = [k for k in keys if config.get(k)]
    return positive(config, *present) if present else 0


def flag(config: Config, key: str, default: bool = False) -> bool:
    """False where it is null."""
    value = config.get(key, default)
    if value is not None and not isinstance(value, bool):
        raise ShapeError(f"{key} must be true or false, not {value!r}")
    return bool(value)


def number(config: Config, key: str, default: float) -> float:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise ShapeError(f"{key} must be a number from 0 to {MAX_NUMBER:g}, not {value!r}")
    return float(value)


def section(config: Config, key: str) -> Config:
    """A nested object; empty when absent."""
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ShapeError(f"{key} must be an object, not {value!r}")
    return value


def text_section(config: Config) -> Config:
    """That of the text model, where a file describes several; empty where the whole file is."""
    inner = section(config, "thinker_config") or config
    return next((found for key in _TEXT_MODEL if (found := section(inner, key))), {})


def entries(config: Config, key: str) -> list[Any]:
    """A list; empty when absent."""
    value = config.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ShapeError(f"{key} must be a list, not {value!r}")
    return value


def named(config: Config, key: str, default: str) -> str:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise ShapeError(f"{key} must be a string, not {value!r}")
    return value
