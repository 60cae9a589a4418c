"""Distributions of lengths and times. Lognormals go by median and log-standard-deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

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
