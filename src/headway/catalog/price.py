"""Prices of public APIs, in dollars for a million tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from headway.catalog.figure import CatalogError, Status, checked_provenance
from headway.catalog.table import read_rows

_MONEY = (
    "input_usd_per_mtok",
    "cached_input_usd_per_mtok",
    "cache_write_usd_per_mtok",
    "cache_write_1h_usd_per_mtok",
    "output_usd_per_mtok",
    "batch_input_usd_per_mtok",
    "batch_output_usd_per_mtok",
    "priority_input_usd_per_mtok",
    "priority_output_usd_per_mtok",
    "step_input_usd_per_mtok",
    "step_output_usd_per_mtok",
)
_FREE_ALLOWED = ("cache_write_usd_per_mtok", "cached_input_usd_per_mtok")
_TOKENS = ("max_input_tokens", "step_threshold_tokens")
_LEAST_USD, _MOST_USD = 1e-6, 1e5
_MOST_TOKENS = 1_000_000_000
COLUMNS = ("provider", "model", *_TOKENS, *_MONEY, "status", "source", "date", "note")


@dataclass(frozen=True, slots=True)
class Price:
    """None: not offered, or not published. Above `step_threshold_tokens` of input the step prices hold."""

    provider: str
    model: str
    max_input_tokens: int | None
    step_threshold_tokens: int | None
    input_usd_per_mtok: float
    cached_input_usd_per_mtok: float | None
    cache_write_usd_per_mtok: float | None
    cache_write_1h_usd_per_mtok: float | None
    output_usd_per_mtok: float
    batch_input_usd_per_mtok: float | None
    batch_output_usd_per_mtok: float | None
    priority_input_usd_per_mtok: float | None
    priority_output_usd_per_mtok: float | None
    step_input_usd_per_mtok: float | None
    step_output_usd_per_mtok: float | None
    status: Status
    source: str
    date: str
    note: str

    @property
    def output_over_input(self) -> float:
        return self.output_usd_per_mtok / self.input_usd_per_mtok

    @property
    def cached_over_input(self) -> float | None:
        cached = self.cached_input_usd_per_mtok
        return None if cached is None else cached / self.input_usd_per_mtok

    @property
    def step_over_input(self) -> float | None:
        step = self.step_input_usd_per_mtok
        return None if step is None else step / self.input_usd_per_mtok

    @property
    def step_over_output(self) -> float | None:
        step = self.step_output_usd_per_mtok
        return None if step is None else step / self.output_usd_per_mtok


def read_prices(file: Traversable) -> Mapping[str, Price]:
    """By model name. Raises CatalogError naming file, line and column."""
    prices: dict[str, Price] = {}
    for where, row in read_rows(file, COLUMNS):
        provider, model = row["provider"], row["model"]
        if not provider or not model:
            raise CatalogError(f"{where}: provider and model are needed")
        if model in prices:
            raise CatalogError(f"{where}: {model} is given twice in one file")
        status, source, date = checked_provenance(row, where)
        cells: dict[str, Any] = {key: _dollars(row[key], key, where) for key in _MONEY}
        cells |= {key: _tokens(row[key], key, where) for key in _TOKENS}
        for key in ("input_usd_per_mtok", "output_usd_per_mtok"):
            if cells[key] is None:
                raise CatalogError(f"{where}: {key} is missing (USD for a million tokens)")
        _check_step(cells, where)
        prices[model] = Price(provider, model, **cells, status=status, source=source, date=date, note=row["note"])
    return prices


def _dollars(text: str, key: str, where: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise CatalogError(f"{where}: {key} {text!r} is not a number of USD for a million tokens") from None
    if not math.isfinite(value) or value < 0 or (value == 0 and key not in _FREE_ALLOWED):
        least = "at least" if key in _FREE_ALLOWED else "above"
        raise CatalogError(f"{where}: {key} {text} must be finite and {least} 0 USD for a million tokens")
    if value and not _LEAST_USD <= value <= _MOST_USD:
        raise CatalogError(f"{where}: {key} {text} is not plausible in USD for a million tokens")
    return value


def _check_step(cells: Mapping[str, Any], where: str) -> None:
    """Raises CatalogError for half a step: prices that would never hold, or a threshold after which none changes."""
    threshold, most = cells["step_threshold_tokens"], cells["max_input_tokens"]
    if (threshold is None) != (cells["step_input_usd_per_mtok"] is None and cells["step_output_usd_per_mtok"] is None):
        raise CatalogError(
            f"{where}: step_threshold_tokens and one of step_input_usd_per_mtok, step_output_usd_per_mtok go together"
        )
    if threshold is not None and most is not None and threshold >= most:
        raise CatalogError(f"{where}: step_threshold_tokens {threshold} must be below max_input_tokens {most}")


def _tokens(text: str, key: str, where: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > len(str(_MOST_TOKENS)) or not 1 <= int(text) <= _MOST_TOKENS:
        raise CatalogError(f"{where}: {key} {text[:40]!r} must be a whole number of tokens, {_MOST_TOKENS:,} at most")
    return int(text)
