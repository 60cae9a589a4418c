"""How many routed experts a step touches, and how uneven their load is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def experts_touched(
    total: int, active: int, tokens: FloatArray | float, popularity: FloatArray | None = None
) -> FloatArray:
    """Expected number of distinct experts among `total` when each of `tokens` tokens picks `active` of them.

    Even routing: E (1 - (1 - k/E)^tokens). With `popularity` [E], the chance of each expert to be picked by a token
    (summing to k), the sum of 1 - (1 - p)^tokens: uneven routing touches fewer.
    """
    tokens = np.asarray(tokens, np.float64)
    if popularity is None:
        return np.asarray(
            total * -np.expm1(tokens * np.log1p(-active / total)) if active < total else total * (tokens > 0)
        )
    return np.asarray((1 - (1 - popularity) ** tokens[..., None]).sum(-1))


def zipf_popularity(total: int, active: int, exponent: float) -> FloatArray:
    """[E] chance of each expert to be picked, falling as rank^-exponent, summing to `active`, none above 1."""
    weights = np.arange(1, total + 1, dtype=np.float64) ** -exponent
    chances = weights * (active / weights.sum())
    while (chances > 1).any():
        full = chances >= 1
        rest = active - int(full.sum())
        chances = np.where(full, 1.0, weights * (rest / weights[~full].sum()))
    return chances


def destinations(groups: int, active: int) -> float:
    """Expected number of distinct chips, other than its own, that a token's experts sit on."""
    return (groups - 1) * (1 - (1 - 1 / groups) ** active)


def imbalance(popularity: FloatArray, groups: int) -> float:
    """Load of the busiest of `groups` chips over the mean, experts dealt out in order of popularity, back and forth."""
    order = np.arange(len(popularity))
    lap, place = order // groups, order % groups
    chip = np.where(lap % 2 == 0, place, groups - 1 - place)
    load = np.bincount(chip, popularity, groups)
    return float(load.max() / load.mean())
