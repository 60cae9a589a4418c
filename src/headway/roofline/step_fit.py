"""Fitting the cost model to steps measured on one machine: a sum of few physical terms, none of them negative.

    device = layers x layer_s + products' bytes / bandwidth + products' FLOPs / rate
           + cache bytes / bandwidth + attention's FLOPs / rate + sequences x sequence_s
    host   = host_s + sequences x host_sequence_s

What steps of few tokens take beyond that, or less, is put down to their layers.

Least squares of relative errors. Reading all weights takes as long in every step, as a constant does: how much of it
is bandwidth is told by a probe of the memory, which the fit leaves only as far as the steps insist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.work import Op, StepWork, step_work
from headway.roofline.coefficients import FEW_TOKENS, layer_seconds
from headway.roofline.terms import op_kind

DEVICE_TERMS = ("layer", "bytes", "flops", "cache bytes", "attention flops", "sequence")
FASTER = 4.0
"""Than a probe, at most: caches are faster than main memory, and a probe is no peak."""
PROBE_WEIGHT = 0.1
"""Of the probe's relative error in the sum of squares, as if it were so much of all steps."""
FOLDS = 5
MIN_GROUPS = 6
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Points:
    """N steps of different shape."""

    shape: StepShape
    """[N]."""
    device_s: FloatArray
    gap_s: FloatArray
    group: Ints
    """[N] the scenario of each: scenarios are held out whole."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What the machine does with one large product, and with one that only reads memory."""

    flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class StepFit:
    """`coefficients`: of the calibrated cost model, against these peaks."""

    flops_per_s: float
    bytes_per_s: float
    coefficients: dict[str, float]
    median_error: float
    held_out_median_error: float
    held_out_mean_error: float


def fit_steps(
    points: Points, model: ModelShape, precision: Precision, probed: Probed, disturbance: float = 1.0
) -> StepFit:
    """Times are multiplied by `disturbance`. Raises ValueError for steps of too few scenarios."""
    groups = np.unique(points.group)
    if len(groups) < MIN_GROUPS:
        raise ValueError(f"steps of {len(groups)} scenarios are too few; at least {MIN_GROUPS} are needed")
    columns = _columns(step_work(model, points.shape, precision), points.shape)
    every = np.ones(len(points.device_s), bool)
    fold = np.searchsorted(groups, points.group) % FOLDS
    unseen = np.zeros(len(every))
    for k in range(FOLDS):
        out = fold == k
        unseen[out] = _errors(points, columns, _terms(points, columns, probed, ~out))[out]
    terms = _terms(points, columns, probed, every)
    median_error = float(np.median(_errors(points, columns, terms)))
    return _scaled(terms, disturbance, probed, median_error, unseen)


def _errors(points: Points, columns: FloatArray, terms: _Terms) -> FloatArray:
    """[N] of each step, host included, relative."""
    few = layer_seconds(points.shape.tokens.astype(np.float64), terms.few_layers_s, terms.device[0])
    predicted_s = columns[:, 0] * few + columns[:, 1:] @ terms.device[1:]
    predicted_s = predicted_s + terms.host[0] + terms.host[1] * points.shape.sequences
    return np.asarray(np.abs(predicted_s / (points.device_s + points.gap_s) - 1))


def _columns(work: StepWork, shape: StepShape) -> FloatArray:
    """[N, 6] what each step has of DEVICE_TERMS."""
    zero = np.zeros(shape.tokens.shape)

    def total(attention: bool, field: str) -> FloatArray:
        chosen: list[Op] = [op for op in work.ops if (op_kind(op.part, op.name) == 2) == attention]
        return np.asarray(sum((getattr(op, field) for op in chosen), start=zero))

    def moved(attention: bool) -> FloatArray:
        return total(attention, "memory_bytes") + total(attention, "activation_bytes")

    parts = (
        zero + work.layers,
        moved(False),
        total(False, "flops"),
        moved(True),
        total(True, "flops"),
        zero + shape.sequences,
    )
    return np.stack(parts, 1)


def _least(probed: Probed) -> FloatArray:
    """Of the device's terms: nothing for times, and for rates what no machine like this one beats."""
    byte_s, flop_s = 1 / (FASTER * probed.bytes_per_s), 1 / (FASTER * probed.flops_per_s)
    return np.array([0.0, byte_s, flop_s, byte_s, flop_s, 0.0])


class _Terms(NamedTuple):
    """Seconds of a unit of each device term [6], of a step and of a sequence on the host [2], and of a layer by few
    tokens.
    """

    device: FloatArray
    host: FloatArray
    few_layers_s: dict[int, float]


def _terms(points: Points, columns: FloatArray, probed: Probed, used: npt.NDArray[np.bool_]) -> _Terms:
    target, least = points.device_s[used], _least(probed)
    weight = np.sqrt(PROBE_WEIGHT * len(target))
    probe = np.zeros(len(least))
    probe[DEVICE_TERMS.index("bytes")] = weight * probed.bytes_per_s
    rows = np.vstack([columns[used] / target[:, None], probe])
    wanted = np.append(np.ones(len(target)), weight)
    device = least + non_negative(rows, wanted - rows @ least)
    gap_s = np.maximum(points.gap_s[used], 1e-9)
    host_columns = np.stack([np.ones(len(gap_s)), points.shape.sequences[used]], 1)
    host = non_negative(host_columns / gap_s[:, None], np.ones(len(gap_s)))
    return _Terms(device, host, _few_layers_s(points, columns, device, used))


def _few_layers_s(
    points: Points, columns: FloatArray, device: FloatArray, used: npt.NDArray[np.bool_]
) -> dict[int, float]:
    """Least squares of relative errors, as all else."""
    left_s, found = points.device_s - columns @ device, {}
    for tokens in FEW_TOKENS:
        alike = used & (points.shape.tokens == tokens)
        if alike.any():
            weight = points.device_s[alike] ** -2
            more_s = float((weight * left_s[alike]).sum() / (weight * columns[alike, 0]).sum())
            found[tokens] = max(1e-9, float(device[0]) + more_s)
    return found


def non_negative(columns: FloatArray, target: FloatArray) -> FloatArray:
    """Least squares without negative coefficients, exact: of all choices of columns, the best that has none. For few
    columns.
    """
    size = np.linalg.norm(columns, axis=0)
    size[size == 0] = 1.0
    unit, best = columns / size, np.zeros(columns.shape[1])
    least = float(target @ target)
    for count in range(1, columns.shape[1] + 1):
        for chosen in combinations(range(columns.shape[1]), count):
            found = np.linalg.lstsq(unit[:, chosen], target, rcond=None)[0]
            if (found < 0).any():
                continue
            residual = unit[:, chosen] @ found - target
            if float(residual @ residual) < least * (1 - 1e-12):
                least = float(residual @ residual)
                best = np.zeros(columns.shape[1])
                best[list(chosen)] = found
    return np.asarray(best / size)


def _scaled(terms: _Terms, disturbance: float, probed: Probed, median_error: float, held_out: FloatArray) -> StepFit:
    """The terms as efficiencies: a peak is the probe's, or what a term of the steps reached if that was more."""
    layer_s, byte_s, flop_s, cache_byte_s, attention_flop_s, sequence_s = (terms.device * disturbance).tolist()
    host = terms.host * disturbance
    bytes_per_s = max(probed.bytes_per_s, 1 / byte_s, 1 / cache_byte_s)
    flops_per_s = max(probed.flops_per_s, 1 / flop_s, 1 / attention_flop_s)

    def reached(unit_s: float, peak: float) -> float:
        return min(1.0, 1 / (unit_s * peak))

    product, read = reached(flop_s, flops_per_s), reached(byte_s, bytes_per_s)
    return StepFit(
        flops_per_s,
        bytes_per_s,
        {
            "overlap": 0.0,
            "compute_efficiency": product,
            "expert_compute_efficiency": product,
            "attention_compute_efficiency": reached(attention_flop_s, flops_per_s),
            "bandwidth_efficiency": read,
            "expert_bandwidth_efficiency": read,
            "attention_bandwidth_efficiency": reached(cache_byte_s, bytes_per_s),
            "layer_s": layer_s,
            **{f"layer_{n}_s": seconds * disturbance for n, seconds in terms.few_layers_s.items()},
            "host_s": float(host[0]),
            "host_sequence_s": float(host[1]) + sequence_s,
        },
        median_error,
        float(np.median(held_out)),
        float(held_out.mean()),
    )


def stacked(shapes: Sequence[StepShape]) -> StepShape:
    """Single steps, one after the other, as one shape [N]."""
    first = shapes[0]
    counts = ("tokens", "sequences", "sampled", "pairs", "reads", "writes")
    return StepShape(first.spans, *(np.stack([getattr(s, name) for s in shapes], -1) for name in counts))
