"""Predictions of measurements by fits that did not see them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.arithmetic.experts import FloatArray
from headway.planner.truth.evidence import Evidence, Flags
from headway.roofline.pooled import Pooled

HELD_MODELS = ("gpt-oss-120b", "qwen3-32b")
HELD_SYSTEM = "hgx-h200"
"""One mixture, one dense model and one chip, held out together. Not blind: see docs/calibration.md."""
COVERAGE = 0.9
ENOUGH = 30
"""Measurements that a quantile of a group's errors needs; with fewer it is that of all groups, and wider."""
THIN = 1.25


@dataclass(frozen=True, slots=True)
class Predictions:
    """[N] seconds, and the ratio by which nine in ten measurements are expected to lie off at most. NaN: not asked."""

    predicted_s: FloatArray
    ratio: FloatArray


@dataclass(frozen=True, slots=True)
class HeldOut:
    pooled: Pooled
    """Fitted to everything."""
    in_sample: Predictions
    by_model: Predictions
    """Each model's by a fit that saw no measurement of that model."""
    by_chip: Predictions
    declared: Predictions
    """HELD_MODELS' and HELD_SYSTEM's, by one fit that saw neither."""


def held_out(e: Evidence) -> HeldOut:
    """Some twenty fits."""
    everything = np.ones(len(e), bool)
    pooled = e.fit(everything)
    models, systems = e.where(lambda m: m.model), e.where(lambda m: m.system)
    declared = np.isin(models, HELD_MODELS) | (systems == HELD_SYSTEM)
    predicted_s = np.full(len(e), np.nan)
    if declared.any() and not declared.all():
        rows = np.flatnonzero(declared)
        predicted_s[rows] = e.predicted_s(e.fit(~declared), rows)
    by_model, by_chip = (leave_one_out(e, labels) for labels in (models, systems))
    return HeldOut(
        pooled,
        _with_ratio(e, e.predicted_s(pooled, np.arange(len(e))), None),
        _with_ratio(e, by_model, models),
        _with_ratio(e, by_chip, systems),
        Predictions(predicted_s, _with_ratio(e, by_model, models).ratio),
    )


def leave_one_out(e: Evidence, labels: npt.NDArray[np.object_]) -> FloatArray:
    """[N] each label's measurements by a fit to all others; NaN if there is but one label."""
    predicted_s = np.full(len(e), np.nan)
    for label in sorted(set(labels)):
        rows = np.flatnonzero(labels == label)
        if len(rows) < len(e):
            predicted_s[rows] = e.predicted_s(e.fit(labels != label), rows)
    return predicted_s


def _with_ratio(e: Evidence, predicted_s: FloatArray, labels: npt.NDArray[np.object_] | None) -> Predictions:
    """A measurement's ratio comes from errors of other labels than its own (split conformal), by engine and metric."""
    off, every = np.abs(np.log(predicted_s / e.measured_s)), np.ones(len(e), bool)
    groups = e.where(lambda m: f"{m.engine} {m.metric}")
    ratio = np.full(len(e), np.nan)
    for label in sorted(set(labels)) if labels is not None else (None,):
        own = every if labels is None else labels == label
        other = np.isfinite(off) & (every if labels is None else ~own)
        for group in sorted(set(groups[own].tolist())):
            ratio[own & (groups == group)] = ratio_of(group, e, off, other)
    return Predictions(predicted_s, ratio)


def ratio_of(group: str, e: Evidence, off: FloatArray, other: Flags) -> float:
    """That covered COVERAGE of the logarithmic errors `off` [N] of `other` measurements; `group`: engine and metric.
    NaN: there are none.
    """
    groups, models = e.where(lambda m: f"{m.engine} {m.metric}"), e.where(lambda m: m.model)
    same = other & (groups == group)
    if same.sum() >= ENOUGH and len(set(models[same])) > 1:
        return float(np.exp(quantile(off[same], models[same])))
    any_engine = other & (e.where(lambda m: m.metric) == group.split()[-1])
    return float(np.exp(THIN * quantile(off[any_engine], models[any_engine]))) if any_engine.any() else np.nan


def quantile(off: FloatArray, labels: Collection[object], share: float = COVERAGE) -> float:
    """Of errors, with each label counting alike however often it was measured, and one more error that is infinite
    standing for the measurement to come: the largest, if the share is beyond what so few can tell.
    """
    names = np.array([str(label) for label in labels])
    sizes = {name: int((names == name).sum()) for name in set(names)}
    weight = np.array([1 / sizes[name] for name in names])
    order = np.argsort(off)
    reached = np.cumsum(weight[order]) / (weight.sum() * (1 + 1 / len(off)))
    return float(off[order][min(int(np.searchsorted(reached, share)), len(off) - 1)])
