"""When sessions arrive: endless rising times in seconds, from 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from headway.workload.call import WorkloadError

ARRIVALS = ("poisson", "gamma", "constant")
_BATCH = 1024


def arrivals(kind: str, rate_per_s: float, rng: np.random.Generator, cv: float = 1.0) -> Iterator[float]:
    """`cv`: coefficient of variation of the gaps, for `gamma` (1 is Poisson, more is burstier).

    Raises WorkloadError for an unknown kind, a rate that is not positive, a cv that is not.
    """
    if kind not in ARRIVALS:
        raise WorkloadError(f"arrivals must be one of {', '.join(ARRIVALS)}, not {kind!r}")
    if not (rate_per_s > 0 and math.isfinite(rate_per_s)):
        raise WorkloadError(f"rate must be a positive number of sessions a second, not {rate_per_s}")
    if not (cv > 0 and math.isfinite(cv)):
        raise WorkloadError(f"cv must be positive, not {cv}")
    mean_s = 1 / rate_per_s
    if kind == "constant":
        return _constant(mean_s)
    shape = 1.0 if kind == "poisson" else 1 / (cv * cv)
    return _running_sum(lambda n: rng.gamma(shape, mean_s / shape, n))


def _constant(gap_s: float) -> Iterator[float]:
    number = 0
    while True:
        yield number * gap_s
        number += 1


def _running_sum(draw: Callable[[int], np.ndarray[tuple[int], np.dtype[np.float64]]]) -> Iterator[float]:
    now = 0.0
    while True:
        for gap_s in draw(_BATCH).tolist():
            now += gap_s
            yield now
