"""Measurements that no fit has seen, against a fit to others or against the calibrations of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from headway.catalog import Catalog, Figure
from headway.catalog.calibration import ANY, nearest
from headway.planner.truth.evidence import Evidence, evidence
from headway.planner.truth.held_out import HeldOut, Predictions, ratio_of
from headway.planner.truth.measurement import DataError
from headway.planner.truth.readers import DataFile, run_of
from headway.roofline import Coefficients, Serving
from headway.roofline.coefficients import NAMES
from headway.roofline.serving import served_s

_DEFAULTS = asdict(Coefficients()) | asdict(Serving())


def unseen(files: Sequence[DataFile], seen: Sequence[DataFile], catalog: Catalog) -> Evidence:
    """What is in `files` and not in `seen`. Raises DataError if nothing is."""
    known = {run_of(m) for file in seen for m in file.measurements}
    left = [replace(f, measurements=tuple(m for m in f.measurements if run_of(m) not in known)) for f in files]
    if known and not any(file.measurements for file in left):
        raise DataError("--unseen: all of it is in --data too")
    return evidence(left, catalog)


def by_fit(asked: Evidence, e: Evidence, held: HeldOut) -> Predictions:
    """By the fit to all of `e`; intervals from its errors on models that were held out."""
    off = np.abs(np.log(held.by_model.predicted_s / e.measured_s))
    groups = asked.where(lambda m: f"{m.engine} {m.metric}")
    ratio = np.full(len(asked), np.nan)
    for group in sorted(set(groups)):
        ratio[groups == group] = ratio_of(group, e, off, np.isfinite(off))
    return Predictions(asked.predicted_s(held.pooled, np.arange(len(asked))), ratio)


def by_catalog(asked: Evidence, catalog: Catalog) -> Predictions:
    """By the calibration that `plan` takes for each chip and engine: all prompts mixed in, no fit of one's own."""
    found = [_figures(catalog, m.system, m.engine) for m in asked.found]
    values = {name: np.array([_value(figures, name) for figures in found]) for name in NAMES}
    within = {"tpot": "interval_ratio", "ttft": "ttft_interval_ratio"}
    ratio = [_value(figures, within[m.metric]) for m, figures in zip(asked.found, found, strict=True)]
    return Predictions(served_s(asked.served, values), np.array(ratio))


def _figures(catalog: Catalog, system: str, engine: str) -> Mapping[str, Figure]:
    known = nearest(catalog.calibrations, catalog.system(system).chip.name, engine)
    return known[1] if known else catalog.calibrations[f"{ANY}/{ANY}"]


def _value(figures: Mapping[str, Figure], name: str) -> float:
    return figures[name].value if name in figures else float(_DEFAULTS.get(name, np.nan))
