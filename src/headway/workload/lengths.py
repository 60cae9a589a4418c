"""Distributions of lengths and times. Lognormals go by median and log-standard-deviation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headway.workload.call import WorkloadError

Floats = npt.NDArray[np.float64]


class Distribution(Protocol):
    def draw(self, rng: np.random.Generator, count: int) -> Floats: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    value: float

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        del rng
        return np.full(count, self.value)


@dataclass(frozen=True, slots=True)
class Uniform:
    low: float
    high: float

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.uniform(self.low, self.high, count)


@dataclass(frozen=True, slots=True)
class LogNormal:
    median: float
    log_std: float

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return self.median * rng.lognormal(0.0, self.log_std, count)


@dataclass(frozen=True, slots=True)
class Mixture:
    """(weight, part); weights add up to 1."""

    parts: tuple[tuple[float, Distribution], ...]

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Each part draws `count` numbers, so that every draw takes the same part of the stream."""
        columns = np.stack([part.draw(rng, count) for _, part in self.parts])
        borders = np.cumsum([weight for weight, _ in self.parts])[:-1]
        return np.asarray(columns[np.searchsorted(borders, rng.uniform(size=count)), np.arange(count)])


def mixture(*parts: tuple[float, float, float]) -> Mixture:
    """Of lognormals: (weight, median, log-standard-deviation)."""
    return Mixture(tuple((weight, LogNormal(median, log_std)) for weight, median, log_std in parts))


def whole(distribution: Distribution, rng: np.random.Generator, count: int, most: int) -> list[int]:
    """Rounded draws between 1 and `most`."""
    drawn = np.clip(np.rint(distribution.draw(rng, count)), 1, most)
    return [int(n) for n in drawn.tolist()]


MAX_TOKENS = 1_000_000
"""Of one prompt or answer that is asked for; a lognormal's draws beyond it are cut to it."""
MAX_LOG_STD = 5.0
_TOKENS = r"(\d{1,15})"
_FORMS = (
    (re.compile(_TOKENS), lambda n: Fixed(n)),
    (re.compile(f"{_TOKENS}-{_TOKENS}"), lambda a, b: Uniform(a, b)),
    (re.compile(rf"{_TOKENS}~(\d(?:\.\d{{1,6}})?)"), lambda median, log_std: LogNormal(median, log_std)),
)


def parse_lengths(text: str) -> Distribution:
    """`512` is fixed, `100-900` uniform, `1000~0.8` lognormal with median 1000. Raises WorkloadError."""
    for pattern, make in _FORMS:
        if (match := pattern.fullmatch(text.strip())) and _in_bounds(made := make(*map(float, match.groups()))):
            return made
    raise WorkloadError(
        f"lengths {text!r} are not understood: 512 (fixed), 100-900 (uniform) or 1000~0.8 (median and log-deviation of "
        f"at most {MAX_LOG_STD:g}), of 1 to {MAX_TOKENS:,} whole tokens"
    )


def _in_bounds(made: Fixed | Uniform | LogNormal) -> bool:
    match made:
        case Fixed(value):
            return 1 <= value <= MAX_TOKENS
        case Uniform(low, high):
            return 1 <= low <= high <= MAX_TOKENS
        case LogNormal(median, log_std):
            return 1 <= median <= MAX_TOKENS and log_std <= MAX_LOG_STD
