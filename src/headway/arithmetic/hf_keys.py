"""Reading keys of a `config.json`, each with a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.arithmetic.layers import ShapeError

Config = Mapping[str, Any]


def positive(config: Config, *keys: str) -> int:
    """The first of these keys that is present. Raises ShapeError unless it is a positive integer."""
    key = next((k for k in keys if config.get(k) is not None), " or ".join(keys))
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ShapeError(f"{key} must be a positive integer, not {value!r}")
    return value


def count(config: Config, *keys: str) -> int:
    """As `positive`, but 0 when every key is absent, null or 0."""
    present = [k for k in keys if config.get(k)]
    return positive(config, *present) if present else 0


def number(config: Config, key: str, default: float) -> float:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise ShapeError(f"{key} must be a number that is not negative, not {value!r}")
    return float(value)


def section(config: Config, key: str) -> Config:
    """A nested object; empty when absent."""
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ShapeError(f"{key} must be an object, not {value!r}")
    return value
