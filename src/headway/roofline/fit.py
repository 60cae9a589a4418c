"""Fitting pooled coefficients to what engines were measured to do: damped least squares on ln(predicted / measured)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.arithmetic.experts import FloatArray
from headway.roofline.coefficients import NAMES, PRIORS, STARTS
from headway.roofline.pooled import FACTORS, Factor, Pooled, Tags, natural
from headway.roofline.serving import IN_STEPS, Served, busy, served_s
from headway.roofline.terms import Indices

NOISE = 1.0
"""Of a measurement's logarithm, against the deviations of the priors; measurements of a group are not independent."""
OUTLIER = 0.4
"""Beyond about this the weight of a residual falls: some rows say something else than what was run."""
_NUDGE = 1e-5


@dataclass(frozen=True, slots=True)
class _Columns:
    """The P numbers that a fit moves: number p adds to coefficient `name[p]` of the kinds of rows where `member[:, p]`
    is true. Rows with the same tags are of one kind and share all coefficients.
    """

    name: Indices
    member: npt.NDArray[np.bool_]
    """[K, P]"""
    rows: tuple[Indices, ...]
    """Of each kind."""
    kind: Indices
    """[N]"""
    penalty: FloatArray
    mean: FloatArray
    """Where a number is expected, and starts."""
    keys: tuple[tuple[str, str] | None, ...]


def fit(served: Served, tags: Sequence[Tags], measured_s: FloatArray, weight: FloatArray | None = None) -> Pooled:
    """Deterministic. `weight` [N]: of each measurement. Raises ValueError without data."""
    if not len(served):
        raise ValueError("a fit needs measurements")
    columns, target = _columns(tags), np.log(measured_s)
    root = np.ones(len(served)) if weight is None else np.sqrt(weight)
    numbers, steady = columns.mean, root
    for steps in (20, 8, 8):
        numbers = _least_squares(served, columns, target, steady, numbers, steps)
        residual = _predicted(served, columns, numbers) - target
        steady = root / (1 + (residual / OUTLIER) ** 2) ** 0.5
    return _pooled(columns, numbers)


def _columns(tags: Sequence[Tags], factors: Sequence[Factor] = FACTORS) -> _Columns:
    places: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for i, tag in enumerate(tags):
        places.setdefault(tuple(sorted(tag.items())), []).append(i)
    kinds = [dict(kind) for kind in places]
    rows = tuple(np.array(place, np.int64) for place in places.values())
    names: list[int] = []
    members: list[npt.NDArray[np.bool_]] = []
    penalties: list[float] = []
    means: list[float] = []
    keys: list[tuple[str, str] | None] = []
    for j, prior in enumerate(PRIORS.values()):
        names.append(j)
        members.append(np.ones(len(kinds), bool))
        penalties.append(NOISE / prior.deviation)
        means.append(0.0)
        keys.append(None)
    for factor in factors:
        levels = [tag.get(factor.name) for tag in kinds]
        for level in sorted({level for level in levels if level is not None} | set(factor.means)):
            member = np.array([each == level for each in levels])
            for name in factor.moves:
                names.append(NAMES.index(name))
                members.append(member)
                penalties.append(NOISE / factor.deviation)
                means.append(factor.means.get(level, 0.0))
                keys.append((factor.name, level))
    kind = np.empty(len(tags), np.int64)
    for k, place in enumerate(rows):
        kind[place] = k
    return _Columns(
        np.array(names), np.stack(members, 1), rows, kind, np.array(penalties), np.array(means), tuple(keys)
    )


def _scale(columns: _Columns, numbers: FloatArray) -> FloatArray:
    """[K, J]"""
    scale = np.tile(np.array(STARTS), (len(columns.member), 1))
    for j in range(len(NAMES)):
        mine = columns.name == j
        scale[:, j] += columns.member[:, mine] @ numbers[mine]
    return scale


def _least_squares(
    served: Served, columns: _Columns, target: FloatArray, root: FloatArray, numbers: FloatArray, steps: int
) -> FloatArray:
    """Levenberg-Marquardt on the normal equations; the priors are part of them."""
    damping, cost = 1e-2, _cost(served, columns, target, root, numbers)
    for _ in range(steps):
        predicted, slopes = _slopes(served, columns, numbers)
        normal, gradient = _normal(columns, root[:, None] * slopes, root * (predicted - target))
        normal += np.diag(columns.penalty**2)
        gradient += columns.penalty**2 * (numbers - columns.mean)
        before = cost
        for _ in range(8):
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -gradient)
            tried = numbers + np.clip(step, -2, 2)
            tried_cost = _cost(served, columns, target, root, tried)
            if tried_cost < cost:
                numbers, cost, damping = tried, tried_cost, damping / 5
                break
            damping *= 5
        if before - cost < 1e-4 * before:
            break
    return numbers


def _normal(columns: _Columns, slopes: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of the Jacobian [N, P] that slopes [N, J] to each coefficient stand for: its square [P, P], and times `residual`
    [P]. Kind by kind, as all rows of a kind have the same columns.
    """
    count = len(columns.name)
    normal, gradient = np.zeros((count, count)), np.zeros(count)
    for member, rows in zip(columns.member, columns.rows, strict=True):
        mine = np.flatnonzero(member)
        to = columns.name[mine]
        normal[np.ix_(mine, mine)] += (slopes[rows].T @ slopes[rows])[np.ix_(to, to)]
        gradient[mine] += (slopes[rows].T @ residual[rows])[to]
    return normal, gradient


def _cost(served: Served, columns: _Columns, target: FloatArray, root: FloatArray, numbers: FloatArray) -> float:
    residual = root * (_predicted(served, columns, numbers) - target)
    return float(residual @ residual + ((columns.penalty * (numbers - columns.mean)) ** 2).sum())


def _predicted(served: Served, columns: _Columns, numbers: FloatArray) -> FloatArray:
    """[N] logarithms."""
    return np.log(served_s(served, _of_rows(columns, _scale(columns, numbers))))


def _of_rows(columns: _Columns, scale: FloatArray) -> dict[str, FloatArray]:
    return {name: values[columns.kind] for name, values in natural(scale).items()}


def _slopes(served: Served, columns: _Columns, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """ln of the prediction [N], and its derivative to each coefficient [N, J] on the fit's scale."""
    scale = _scale(columns, numbers)
    values = _of_rows(columns, scale)
    nudged = natural(scale + _NUDGE)
    whole = busy(served, values)
    predicted = np.log(served_s(served, values, whole))
    slopes = np.empty((len(served), len(NAMES)))
    for j, name in enumerate(NAMES):
        changed = values | {name: nudged[name][columns.kind]}
        slopes[:, j] = np.log(served_s(served, changed, None if name in IN_STEPS else whole)) - predicted
    return predicted, slopes / _NUDGE


def _pooled(columns: _Columns, numbers: FloatArray) -> Pooled:
    shared = np.array(STARTS)
    differences: dict[tuple[str, str], FloatArray] = {}
    for j, key, number in zip(columns.name, columns.keys, numbers, strict=True):
        if key is None:
            shared[j] += number
        else:
            differences.setdefault(key, np.zeros(len(NAMES)))[j] += number
    return Pooled(shared, differences)
