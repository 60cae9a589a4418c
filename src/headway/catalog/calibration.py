"""Fitted coefficients of the calibrated cost model, each with the data that it came from and the error of the fit."""

from __future__ import annotations

from collections.abc import Mapping

from headway.catalog import units
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.table import Item, Schema, figures

SCHEMA: Schema = {
    "compute_efficiency": units.FRACTION,
    "half_rows": units.ROWS,
    "bandwidth_efficiency": units.FRACTION,
    "link_efficiency": units.FRACTION,
    "round_s": units.SHORT_SECONDS,
    "layer_s": units.SHORT_SECONDS,
    "expert_layer_s": units.SHORT_SECONDS,
    "host_s": units.SHORT_SECONDS,
    "host_sequence_s": units.SHORT_SECONDS,
    "idle_w": units.WATTS,
    "compute_j_per_flop": units.JOULES_PER_FLOP,
    "memory_j_per_byte": units.JOULES_PER_BYTE,
    "median_error": units.FRACTION,
    "mean_error": units.FRACTION,
    "points": units.ROWS,
}
_ERROR = ("median_error", "mean_error", "points")


def calibrations(items: Mapping[str, Item]) -> dict[str, dict[str, Figure]]:
    """By `chip/engine`. Raises CatalogError for a fit that does not state its error and how many points it saw."""
    found = {name: figures(item) for name, item in items.items()}
    for name, fitted in found.items():
        missing = [key for key in _ERROR if key not in fitted]
        if missing:
            raise CatalogError(f"calibration {name}: {missing[0]} is missing")
    return found
