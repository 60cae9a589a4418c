"""Quantiles with confidence intervals, of samples that come in clusters."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LEVELS = (0.5, 0.9, 0.95, 0.99)
Z95 = 1.959963984540054


class Quantile(msgspec.Struct, frozen=True):
    """`low` and `high`: 95% interval; None where the sample is too small to bound it on that side."""

    level: float
    value: float
    low: float | None
    high: float | None


class Distribution(msgspec.Struct, frozen=True):
    """`count` samples from `clusters` requests."""

    count: int
    clusters: int
    mean: float
    mean_low: float | None
    mean_high: float | None
    min: float
    max: float
    quantiles: list[Quantile]

    def at(self, level: float) -> Quantile:
        return next(quantile for quantile in self.quantiles if quantile.level == level)


def distribution(samples: Floats, sizes: npt.NDArray[np.int64] | None = None) -> Distribution | None:
    """`samples` cluster by cluster, `sizes` of the clusters that are not empty (None: one each). None when empty.

    Gaps of one request resemble each other, so requests, not gaps, are the independent units. A share of samples is
    then a ratio of cluster sums, with variance sum((c_i - q n_i)^2) / N^2; the interval of a quantile is that of its
    level, turned back into values (Woodruff 1952). One sample a cluster gives the common binomial interval.
    """
    if not samples.size:
        return None
    sizes = np.ones(samples.size, np.int64) if sizes is None else sizes
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    ordered = np.sort(samples)
    mean = float(samples.mean())
    spread = np.add.reduceat(samples - mean, starts)
    error = _standard_error(spread, samples.size)
    half = None if error is None else Z95 * error
    return Distribution(
        count=int(samples.size),
        clusters=int(sizes.size),
        mean=mean,
        mean_low=None if half is None else mean - half,
        mean_high=None if half is None else mean + half,
        min=float(ordered[0]),
        max=float(ordered[-1]),
        quantiles=[_quantile(level, samples, ordered, sizes, starts) for level in LEVELS],
    )


def quantile_of(ordered: Floats, level: float) -> float:
    """The smallest sample that at least a share `level` of all does not exceed: always one that was seen."""
    at = math.ceil(level * ordered.size - 1e-9) - 1
    return float(ordered[min(max(at, 0), ordered.size - 1)])


def _quantile(
    level: float, samples: Floats, ordered: Floats, sizes: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> Quantile:
    value = quantile_of(ordered, level)
    inside = np.add.reduceat((samples <= value).astype(np.float64), starts)
    error = _standard_error(inside - level * sizes, samples.size)
    if error is None:
        return Quantile(level, value, None, None)
    # A cluster spread of 0 (all alike) still leaves the binomial uncertainty of the clusters.
    error = max(error, math.sqrt(level * (1 - level) / samples.size))
    low, high = level - Z95 * error, level + Z95 * error
    return Quantile(
        level,
        value,
        quantile_of(ordered, low) if low > 0 else None,
        quantile_of(ordered, high) if high < 1 else None,
    )


def _standard_error(deviations: Floats, count: int) -> float | None:
    """Of a ratio whose cluster sums deviate so much from what the ratio would give."""
    clusters = deviations.size
    if clusters < 2:
        return None
    return math.sqrt(clusters / (clusters - 1) * float(np.square(deviations).sum())) / count
