"""The calibrated model: additive terms with efficiencies and overheads, whose coefficients are data with an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.transfers import Transfer
from headway.arithmetic.work import Op, StepWork
from headway.catalog import CatalogError, Figure, System
from headway.roofline.cost import StepCost
from headway.roofline.floor import rate_flops_per_s, transfer_s


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The defaults are those of a perfect machine: with them, no overlap between operations is all that is added."""

    compute_efficiency: float = 1.0
    """Of the peak, for a matrix product with many rows."""
    half_rows: float = 0.0
    """Rows at which a matrix product reaches half of that."""
    bandwidth_efficiency: float = 1.0
    link_efficiency: float = 1.0
    round_s: float = 0.0
    """Added to the latency of a link for each round of a collective."""
    layer_s: float = 0.0
    """Launches, norms, rotation and all else that a layer takes whatever its size."""
    expert_layer_s: float = 0.0
    """What a layer with routed experts takes beyond that: routing, sorting, gathering."""
    host_s: float = 0.0
    """Gap between steps."""
    host_sequence_s: float = 0.0
    """What each sequence adds to it."""
    idle_w: float = 0.0
    compute_j_per_flop: float = 0.0
    memory_j_per_byte: float = 0.0


def coefficients(figures: Mapping[str, Figure]) -> Coefficients:
    """From the catalog. Raises CatalogError for an efficiency above 1."""
    names = {field.name for field in fields(Coefficients)}
    chosen = Coefficients(**{name: figure.value for name, figure in figures.items() if name in names})
    for name in ("compute_efficiency", "bandwidth_efficiency", "link_efficiency"):
        if not 0 < getattr(chosen, name) <= 1:
            raise CatalogError(f"{name} must be above 0 and at most 1, not {getattr(chosen, name)}")
    return chosen


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients, and how far off the fit was on the data that it saw: expect more elsewhere."""

    coefficients: Coefficients
    median_error: float
    points: int
    source: str


def calibration(figures: Mapping[str, Figure]) -> Calibration:
    """From the catalog's figures of one chip and engine."""
    error, points = figures["median_error"], figures["points"]
    return Calibration(coefficients(figures), error.value, round(points.value), error.source)


def calibrated_cost(
    work: StepWork, shape: StepShape, system: System, c: Coefficients, cut: Parallelism | None = None
) -> StepCost:
    """Every operation takes the longer of its compute and its memory time; operations, collectives, layers' overhead
    and the host follow one another.
    """
    cut = cut or Parallelism()
    rows = np.maximum(shape.local_tokens(cut.data, cut.context), 1.0)
    compute_s, memory_s, busy_s = (np.zeros(np.shape(rows)) for _ in range(3))
    for op in work.ops:
        op_compute_s, op_memory_s = _op_seconds(op, rows, system, c)
        compute_s, memory_s = compute_s + op_compute_s, memory_s + op_memory_s
        busy_s = busy_s + np.maximum(op_compute_s, op_memory_s)
    network_s = sum((_transfer_seconds(t, system, c) for t in work.transfers), start=np.float64(0)) + 0.0 * busy_s
    fixed_s = c.host_s + work.layers * c.layer_s + work.expert_layers * c.expert_layer_s
    host_s = fixed_s + c.host_sequence_s * shape.sequences + 0.0 * busy_s
    return StepCost(
        compute_s=compute_s,
        memory_s=memory_s,
        network_s=np.asarray(network_s),
        host_s=host_s,
        step_s=busy_s + network_s + host_s,
        flops=work.total("flops"),
        memory_bytes=work.memory_bytes,
        chips=cut.chips,
    )


def calibrated_energy_j(cost: StepCost, c: Coefficients) -> FloatArray:
    """Idle power all the time, and dynamic energy for each FLOP and byte, of all chips."""
    dynamic = cost.flops * c.compute_j_per_flop + cost.memory_bytes * c.memory_j_per_byte
    return cost.chips * (cost.step_s * c.idle_w + dynamic)


def _op_seconds(op: Op, rows: FloatArray, system: System, c: Coefficients) -> tuple[FloatArray, FloatArray]:
    reached = c.compute_efficiency * rows / (rows + c.half_rows)
    peak = rate_flops_per_s(system.chip, op.rate) if np.any(op.flops) else 1.0
    moved = op.memory_bytes + op.activation_bytes
    return op.flops / (peak * reached), moved / (system.chip.hbm_bytes_per_s * c.bandwidth_efficiency)


def _transfer_seconds(t: Transfer, system: System, c: Coefficients) -> FloatArray:
    latency_s = t.inside_rounds * _latency(system.scaleup, c) + t.outside_rounds * _latency(system.scaleout, c)
    return transfer_s(t, system, c.link_efficiency) + t.count * latency_s


def _latency(link: object, c: Coefficients) -> float:
    return (getattr(link, "latency_s", None) or 0.0) + c.round_s
