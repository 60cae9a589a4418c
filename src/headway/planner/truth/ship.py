"""Pooled coefficients as a `calibration.csv` of the catalog: one calibration a chip and engine, and for any chip."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.catalog import Catalog
from headway.catalog.calibration import ANY, SCHEMA
from headway.catalog.table import COLUMNS
from headway.planner.truth.evidence import Evidence
from headway.planner.truth.held_out import HeldOut, Predictions
from headway.planner.truth.readers import DataFile
from headway.planner.truth.tables import error_row
from headway.roofline.pooled import Tags

UNITS = {"_s": "s", "points": "rows", "half_rows": "rows", "chunk_tokens": "rows"}
PROTOCOL = "InferenceX"
"""Whose way of sending requests the serving coefficients stand for: a fixed number in flight at any time."""
TTFT_ERRORS = ("median_error", "held_out_median_error", "interval_ratio")
_OF_TPOT = ("error", "points", "interval_ratio")
_RUN = {"mode": "mixed", "protocol": PROTOCOL, "client": PROTOCOL}


@dataclass(frozen=True, slots=True)
class Shipped:
    """One calibration: figures in SI, by name."""

    name: str
    figures: dict[str, float]


def shipped(e: Evidence, held: HeldOut, catalog: Catalog) -> tuple[Shipped, ...]:
    """The errors are in sample, and where the model (for any chip: the chip) was held out."""
    engines, systems = e.where(lambda m: m.engine), e.where(lambda m: m.system)
    tpot = e.where(lambda m: m.metric) == "tpot"
    found = []
    for engine in sorted(set(engines)):
        mine = engines == engine
        if engine == "other" or not (tpot & mine).any():
            continue
        found.append(_calibration(e, held, f"{ANY}/{engine}", mine, held.by_chip, _tags(engine)))
        for system in sorted(set(systems[tpot & mine])):
            chip = catalog.system(system).chip.name
            here = mine & (systems == system)
            found.append(_calibration(e, held, f"{chip}/{engine}", here, held.by_model, _tags(engine, chip)))
    found.append(_calibration(e, held, f"{ANY}/{ANY}", np.ones(len(e), bool), held.by_chip, _RUN))
    return tuple(found)


def _tags(engine: str, chip: str | None = None) -> Tags:
    found = _RUN | {
        "engine": engine,
        "engine and mode": f"{engine}, mixed",
        "protocol and engine": f"{PROTOCOL}, {engine}",
    }
    return found | ({"chip": chip, "engine and chip": f"{engine}, {chip}"} if chip else {})


def _calibration(
    e: Evidence, held: HeldOut, name: str, rows: npt.NDArray[np.bool_], other: Predictions, tags: Tags
) -> Shipped:
    figures = {key: float(value[0]) for key, value in held.pooled.resolved([tags]).items()}
    figures["host_beside"] = 1.0  # As the fit has it.
    first = e.where(lambda m: m.metric) == "ttft"
    figures |= _errors(e, held, rows & ~first, other)
    if (rows & first).any():
        errors = _errors(e, held, rows & first, other)
        figures |= {f"ttft_{key}": errors[key] for key in TTFT_ERRORS if key in errors}
    return Shipped(name, figures)


def _errors(e: Evidence, held: HeldOut, rows: npt.NDArray[np.bool_], other: Predictions) -> dict[str, float]:
    seen, unseen = error_row("", e.measured_s, held.in_sample, rows), rows & np.isfinite(other.predicted_s)
    found = {"median_error": seen.median_error, "mean_error": seen.mean_error, "points": float(seen.points)}
    if unseen.any():
        row = error_row("", e.measured_s, other, unseen)
        found |= {"held_out_median_error": row.median_error, "held_out_mean_error": row.mean_error}
        found |= {} if row.interval_ratio is None else {"interval_ratio": row.interval_ratio}
    return found


def as_csv(calibrations: Sequence[Shipped], files: Sequence[DataFile], date: str) -> str:
    """`date`: of the fit, as 2026-11. The source names the data and their digests."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    source = "headway plan fit on " + ", ".join(f"{file.name} (sha256 {file.sha256[:12]})" for file in files)
    for calibration in calibrations:
        writer.writerows(_rows(calibration, source, date))
    return out.getvalue()


def _rows(calibration: Shipped, source: str, date: str) -> Iterator[tuple[str, ...]]:
    for name, value in calibration.figures.items():
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), None)
        unit = unit or ("ratio" if "ratio" in SCHEMA[name].units else "fraction")  # type: ignore[union-attr]
        note = "TPOT" if name.endswith(_OF_TPOT) and not name.startswith("ttft") else ""
        yield calibration.name, name, f"{value:.4g}", unit, "measured", source, date, note
