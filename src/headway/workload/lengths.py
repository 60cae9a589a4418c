"""Distributions of lengths and times. Lognormals go by median and log-standard-deviation."""

from __future__ import annotations

import math
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


_NUMBER = r"(\d{1,9}(?:\.\d{1,6})?)"
_FORMS = (
    (re.compile(_NUMBER), lambda n: Fixed(n)),
    (re.compile(f"{_NUMBER}-{_NUMBER}"), lambda a, b: Uniform(a, b)),
    (re.compile(f"{_NUMBER}~{_NUMBER}"), lambda median, log_std: LogNormal(median, log_std)),
)


def parse_lengths(text: str) -> Distribution:
    """`512` is fixed, `100-900` uniform, `1000~0.8` lognormal with median 1000. Raises WorkloadError."""
    for pattern, make in _FORMS:
        if match := pattern.fullmatch(text.strip()):
            numbers = [float(n) for n in match.groups()]
            if numbers[0] < 1 or (isinstance(made := make(*numbers), Uniform) and made.high < made.low):
                break
            if all(map(math.isfinite, numbers)):
                return made
    raise WorkloadError(
        f"lengths {text!r} are not understood: 512 (fixed), 100-900 (uniform) or 1000~0.8 (median and log-deviation), "
        "of at least 1 token"
    )
