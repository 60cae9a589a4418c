"""The calibrated model: additive terms with efficiencies and overheads, whose coefficients are data with an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.transfers import Transfer
from headway.arithmetic.work import Op, StepWork
from headway.catalog import CatalogError, Figure, System
from headway.roofline.coefficients import PRIORS, Coefficients, Serving, layer_seconds
from headway.roofline.cost import StepCost
from headway.roofline.floor import rate_flops_per_s, transfer_s
from headway.roofline.serving import beside
from headway.roofline.terms import (
    expert_missed,
    expert_rows,
    expert_spread,
    experts_left,
    is_widened,
    launches,
    most_read,
    op_kind,
    rounds,
)

_SHARES = tuple(name for name, prior in PRIORS.items() if prior.share and name.endswith("efficiency"))
Values = TypeVar("Values", Coefficients, Serving)


def coefficients(figures: Mapping[str, Figure]) -> Coefficients:
    """From the catalog. Raises CatalogError for an efficiency above 1."""
    chosen = _chosen(Coefficients, figures)
    for name in _SHARES:
        if not 0 < getattr(chosen, name) <= 1:
            raise CatalogError(f"{name} must be above 0 and at most 1, not {getattr(chosen, name)}")
    return chosen


def _chosen(kind: type[Values], figures: Mapping[str, Figure]) -> Values:
    names = {field.name for field in fields(kind)}
    return kind(**{name: figure.value for name, figure in figures.items() if name in names})


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients, and how far off the fit was: on the data that it saw, and on models that were held out of it."""

    coefficients: Coefficients
    serving: Serving
    median_error: float
    points: int
    source: str
    held_out_median_error: float | None = None
    """None: the file that the fit comes from states none."""
    held_out_mean_error: float | None = None
    interval_ratio: float | None = None
    """Nine in ten measurements of unseen models lie within the prediction divided and multiplied by it."""
    ttft_held_out_median_error: float | None = None
    ttft_interval_ratio: float | None = None
    measured_chip: bool = True
    """False: no measurement of this chip was in the fit; it is predicted from its datasheet and what others share."""


def calibration(figures: Mapping[str, Figure], measured_chip: bool = True) -> Calibration:
    """From the catalog's figures of one chip and engine."""

    def stated(name: str) -> float | None:
        return figures[name].value if name in figures else None

    error, points = figures["median_error"], figures["points"]
    return Calibration(
        coefficients(figures),
        _chosen(Serving, figures),
        error.value,
        round(points.value),
        error.source,
        stated("held_out_median_error"),
        stated("held_out_mean_error"),
        stated("interval_ratio"),
        stated("ttft_held_out_median_error"),
        stated("ttft_interval_ratio"),
        measured_chip,
    )


def calibrated_cost(
    work: StepWork, shape: StepShape, system: System, c: Coefficients, cut: Parallelism | None = None
) -> StepCost:
    """Every operation takes the longer of its compute and its memory time (and of the shorter what does not overlap);
    operations, collectives and launches follow one another, and the host works beside them or follows.
    """
    cut = cut or Parallelism()
    rows = np.maximum(shape.local_tokens(cut.data, cut.context), 1.0)
    busiest = 1 + c.imbalance * expert_spread(work, shape, cut)
    tokens, missed = np.asarray(shape.tokens, np.float64), expert_missed(work)
    read = np.minimum(busiest * experts_left(tokens, missed, c.expert_variety), most_read(tokens, missed))
    expert_row = busiest * expert_rows(shape, cut)
    compute_s, memory_s, busy_s = (np.zeros(np.shape(rows)) for _ in range(3))
    for op in work.ops:
        op_compute_s, op_memory_s = _op_s(op, expert_row if op.part == "experts" else rows, system, c)
        if op.part == "experts":
            op_compute_s, op_memory_s = op_compute_s * busiest, op_memory_s * read
        compute_s, memory_s = compute_s + op_compute_s, memory_s + op_memory_s
        exposed_s = (1 - c.overlap) * np.minimum(op_compute_s, op_memory_s)
        busy_s = busy_s + np.maximum(op_compute_s, op_memory_s) + exposed_s
    busy_s = busy_s + work.layers * (layer_seconds(rows, c.few_layers_s, c.layer_s) - c.layer_s)
    network_s = sum((_transfer_seconds(t, system, c) for t in work.transfers), start=np.float64(0)) + 0.0 * busy_s
    around_s = (
        launches(work, system.chip) * c.launch_s + work.layers * c.layer_s + work.expert_layers * c.expert_layer_s
    )
    device_s = busy_s + network_s + around_s
    own = shape.sequences * shape.busiest_share(cut.data)  # Each group of sequences has a host of its own.
    gap_s = np.asarray(c.host_s + c.host_sequence_s * own, np.float64)
    step_s = c.host_beside * beside(device_s, gap_s) + (1 - c.host_beside) * (device_s + gap_s)
    return StepCost(
        compute_s=compute_s,
        memory_s=memory_s,
        network_s=np.asarray(network_s),
        host_s=np.minimum(around_s + gap_s, step_s),  # The host plans the next step while it launches this one.
        step_s=step_s,
        flops=work.total("flops"),
        memory_bytes=work.memory_bytes,
        chips=cut.chips,
    )


def calibrated_energy_j(cost: StepCost, c: Coefficients) -> FloatArray:
    """Idle power all the time, and dynamic energy for each FLOP and byte, of all chips."""
    dynamic = cost.flops * c.compute_j_per_flop + cost.memory_bytes * c.memory_j_per_byte
    return cost.chips * (cost.step_s * c.idle_w + dynamic)


def _op_s(op: Op, rows: FloatArray, system: System, c: Coefficients) -> tuple[FloatArray, FloatArray]:
    kind = op_kind(op.part, op.name)
    reached = (c.compute_efficiency, c.expert_compute_efficiency, c.attention_compute_efficiency)[kind]
    widened = is_widened(system.chip, op.rate)
    reached *= {"bf16": 1.0, "fp4": c.fp4_efficiency}.get("bf16" if widened else op.rate, c.fp8_efficiency)
    filled = rows / (rows + c.half_rows) if kind < 2 else 1.0
    bandwidth = (c.bandwidth_efficiency, c.expert_bandwidth_efficiency, c.attention_bandwidth_efficiency)[kind]
    bandwidth *= c.widened_efficiency if widened else 1.0
    peak = rate_flops_per_s(system.chip, op.rate) if np.any(op.flops) else 1.0
    moved = op.memory_bytes + op.activation_bytes
    return op.flops / (peak * reached * filled), moved / (system.chip.hbm_bytes_per_s * bandwidth)


def _transfer_seconds(t: Transfer, system: System, c: Coefficients) -> FloatArray:
    """A fitted round replaces the latencies of the catalog."""
    round_s = c.expert_round_s if "expert" in t.name else c.round_s
    if not round_s:
        latencies = (getattr(link, "latency_s", None) or 0.0 for link in (system.scaleup, system.scaleout))
        inside_s, outside_s = latencies
        latency_s = t.count * (t.inside_rounds * inside_s + t.outside_rounds * outside_s)
    else:
        latency_s = rounds(t) * round_s
    return transfer_s(t, system, c.link_efficiency) + latency_s
