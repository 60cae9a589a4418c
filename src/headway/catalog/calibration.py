"""Fitted coefficients of the calibrated cost model, each with the data that it came from and the error of the fit."""

from __future__ import annotations

from collections.abc import Mapping

from headway.catalog import units
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.table import Item, Schema, figures

SCHEMA: Schema = {
    "compute_efficiency": units.FRACTION,
    "expert_compute_efficiency": units.FRACTION,
    "attention_compute_efficiency": units.FRACTION,
    "fp8_efficiency": units.FRACTION,
    "fp4_efficiency": units.FRACTION,
    "imbalance": units.FRACTION,
    "expert_variety": units.FRACTION,
    "half_rows": units.ROWS,
    "overlap": units.FRACTION,
    "bandwidth_efficiency": units.FRACTION,
    "expert_bandwidth_efficiency": units.FRACTION,
    "attention_bandwidth_efficiency": units.FRACTION,
    "widened_efficiency": units.FRACTION,
    "link_efficiency": units.FRACTION,
    "round_s": units.SHORT_SECONDS,
    "expert_round_s": units.SHORT_SECONDS,
    "launch_s": units.SHORT_SECONDS,
    "layer_s": units.SHORT_SECONDS,
    "layer_1_s": units.SHORT_SECONDS,
    "layer_2_s": units.SHORT_SECONDS,
    "layer_3_s": units.SHORT_SECONDS,
    "layer_4_s": units.SHORT_SECONDS,
    "layer_8_s": units.SHORT_SECONDS,
    "layer_16_s": units.SHORT_SECONDS,
    "expert_layer_s": units.SHORT_SECONDS,
    "host_s": units.SHORT_SECONDS,
    "host_sequence_s": units.SHORT_SECONDS,
    "host_beside": units.FRACTION,
    "idle_w": units.WATTS,
    "compute_j_per_flop": units.JOULES_PER_FLOP,
    "memory_j_per_byte": units.JOULES_PER_BYTE,
    "mixing": units.RATIO,
    "request_s": units.SHORT_SECONDS,
    "chunk_tokens": units.ROWS,
    "queue": units.RATIO,
    "burst": units.RATIO,
    "waiting": units.RATIO,
    "tokens_per_step": units.RATIO,
    "prompt_launch_s": units.SHORT_SECONDS,
    "prompt_factor": units.RATIO,
    "steps_before": units.RATIO,
    "median_error": units.RATIO,
    "mean_error": units.RATIO,
    "points": units.ROWS,
    "held_out_median_error": units.RATIO,
    "held_out_mean_error": units.RATIO,
    "interval_ratio": units.RATIO,
    "ttft_median_error": units.RATIO,
    "ttft_held_out_median_error": units.RATIO,
    "ttft_interval_ratio": units.RATIO,
}
ERROR = ("median_error", "mean_error", "points")
"""What a fit must state. Rows that state all of it are a fit of their own, not figures of the one that they overlay."""
ANY = "any"
"""As the chip or the engine of a calibration: what all that were measured share."""


def calibrations(items: Mapping[str, Item]) -> dict[str, dict[str, Figure]]:
    """By `chip/engine`. Raises CatalogError for a fit that does not state its error and how many points it saw."""
    found = {name: figures(item) for name, item in items.items()}
    for name, fitted in found.items():
        missing = [key for key in ERROR if key not in fitted]
        if missing:
            raise CatalogError(f"calibration {name}: {missing[0]} is missing")
    return found


def engines(found: Mapping[str, Mapping[str, Figure]]) -> tuple[str, ...]:
    """Those that were measured."""
    names = sorted({name.partition("/")[2] for name in found} - {ANY})
    return tuple(names)


def nearest(
    found: Mapping[str, Mapping[str, Figure]], chip: str, engine: str
) -> tuple[str, Mapping[str, Figure]] | None:
    """(name, figures) of the calibration that says the most about this chip under this engine; None: there is none."""
    for name in (f"{chip}/{engine}", f"{ANY}/{engine}"):
        if name in found:
            return name, found[name]
    return None
