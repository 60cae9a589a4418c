"""How many routed experts a step touches, and how uneven their load is."""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def experts_touched(total: int, active: int, tokens: FloatArray | float) -> FloatArray:
    """Expected number of distinct experts when each of `tokens` tokens picks `active` of `total`, all equally liked.

    E (1 - (1 - k/E)^tokens): a token misses a given expert with 1 - k/E.
    """
    tokens = np.asarray(tokens, np.float64)
    if active == total:
        return np.where(tokens > 0, float(total), 0.0)
    return np.asarray(-total * np.expm1(tokens * np.log1p(-active / total)), np.float64)


def popular_experts_touched(popularity: FloatArray, tokens: FloatArray | float) -> FloatArray:
    """The same when expert e is picked by a token with chance popularity[e]: uneven routing touches fewer."""
    missed = (1 - popularity) ** np.asarray(tokens, np.float64)[..., None]
    return np.asarray((1 - missed).sum(-1), np.float64)


def zipf_popularity(total: int, active: int, exponent: float) -> FloatArray:
    """[E] chance of each expert to be picked, falling as rank^-exponent, summing to `active`, none above 1."""
    weights: FloatArray = np.arange(1, total + 1, dtype=np.float64) ** -exponent
    chances: FloatArray = weights * (active / weights.sum())
    while (chances > 1).any():
        full = chances >= 1
        chances = np.where(full, np.float64(1), weights * ((active - full.sum()) / weights[~full].sum()))
    return chances


@lru_cache(maxsize=4096)
def destinations(groups: int, active: int, total: int) -> float:
    """Expected number of distinct chips among `groups`, other than its own, that a token's experts sit on.

    A chip with total / groups experts is missed by all choices of `active` distinct ones among the others.
    """
    missed = comb(total - total // groups, active) / comb(total, active)
    return (groups - 1) * (1 - missed)


def imbalance(popularity: FloatArray, groups: int) -> float:
    """Load of the busiest of `groups` chips over the mean, experts dealt out in order of popularity, back and forth."""
    lap, place = np.divmod(np.arange(len(popularity)), groups)
    chip = np.where(lap % 2 == 0, place, groups - 1 - place)
    load = np.bincount(chip, popularity, groups)
    return float(load.max() / load.mean())
