"""Figures of a simulation's result by the names that a table and a chart's axes have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

_TIMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "end to end", "queue": "queue"}
_LEVELS = ("mean", "p50", "p90", "p99", "max")
_OTHERS = {
    "interactivity": ("interactivity_tokens_per_s", "interactivity", "tokens/s a user"),
    "throughput": ("output_tokens_per_s_per_chip", "throughput", "tokens/s a chip"),
    "tokens": ("output_tokens_per_s", "throughput", "tokens/s"),
    "requests": ("requests_per_s", "throughput", "requests/s"),
    "goodput": ("goodput_requests_per_s", "goodput", "requests/s"),
    "good-tokens": ("goodput_tokens_per_s", "goodput", "tokens/s"),
    "good-share": ("goodput_share", "calls that keep the SLO", "%"),
    "hit-rate": ("hit_rate", "prompt tokens found in the cache", "%"),
    "busy": ("busy_share", "busy", "%"),
    "preemptions": ("preemptions", "preemptions", ""),
    "duration": ("duration_s", "duration", "s"),
    "usd": ("usd_per_mtok_output", "cost", "USD a million tokens"),
    "tier-usd": ("tier_usd_per_mtok_output", "cost of tiers", "USD a million tokens"),
    "energy": ("energy_j_per_output_token", "energy", "J a token"),
}


class MeasureError(ValueError):
    """No measure has this name: one line."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a result."""

    name: str
    path: tuple[str, ...]
    """Keys, one in the other."""
    title: str
    unit: str

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def of(self, result: Mapping[str, Any]) -> float | None:
        """None where the result has none."""
        value: Any = result
        for key in self.path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _all() -> dict[str, Measure]:
    found = {
        f"{name}-{level}": Measure(f"{name}-{level}", (f"{name}_s", level), f"{title}, {level}", "s")
        for name, title in _TIMES.items()
        for level in _LEVELS
    }
    return found | {name: Measure(name, (key,), title, unit) for name, (key, title, unit) in _OTHERS.items()}


MEASURES = _all()


def measure(name: str) -> Measure:
    """By name, or by its place in the JSON result, as `bound_share.compute`. Raises MeasureError."""
    if "." in name:
        return Measure(name, tuple(name.split(".")), name, "")
    if name in MEASURES:
        return MEASURES[name]
    near = get_close_matches(name, MEASURES, 3)
    hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(_OTHERS)}, ttft-p99 and the like"
    raise MeasureError(f"{name!r} is neither a swept option nor a figure of the result: {hint}")
