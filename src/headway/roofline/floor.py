"""The roofline: no step is faster than its arithmetic, its memory traffic or its network traffic at their peaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.formats import Rate
from headway.arithmetic.transfers import Transfer
from headway.arithmetic.work import StepWork
from headway.catalog import CatalogError, Chip, System
from headway.roofline.cost import StepCost

_WIDER: dict[Rate, tuple[Rate, ...]] = {
    "fp4": ("fp4", "fp8", "bf16"),
    "fp8": ("fp8", "bf16"),
    "int8": ("int8", "bf16"),
    "bf16": ("bf16",),
}


def rate_flops_per_s(chip: Chip, rate: Rate) -> float:
    """The chip's peak at this rate, or at a wider one if that is faster or all that it has: values are widened, then
    multiplied.

    Raises CatalogError if it publishes none of them.
    """
    known = (getattr(chip, f"{candidate}_flops_per_s") for candidate in _WIDER[rate])
    return max((peak for peak in known if peak is not None), default=0.0) or chip.flops_per_s(_WIDER[rate][-1])


def floor_cost(work: StepWork, system: System, chips: int = 1) -> StepCost:
    """Longest of compute, memory and network, each at its peak and all overlapped. Left out, so that it stays a lower
    bound: activations' traffic, the latency of links, launches, the host.
    """
    chip = system.chip
    rates = {rate: work.flops_at(rate) for rate in work.rates}
    compute_s = sum((f / rate_flops_per_s(chip, r) for r, f in rates.items() if np.any(f)), start=np.float64(0))
    memory_s = work.memory_bytes / chip.hbm_bytes_per_s
    network_s = sum((transfer_s(t, system) for t in work.transfers), start=np.float64(0)) + 0.0 * memory_s
    return StepCost(
        compute_s=np.asarray(compute_s),
        memory_s=memory_s,
        network_s=np.asarray(network_s),
        host_s=np.zeros_like(memory_s),
        step_s=np.maximum(np.maximum(compute_s, memory_s), network_s),
        flops=work.total("flops"),
        memory_bytes=work.memory_bytes,
        chips=chips,
    )


def transfer_s(t: Transfer, system: System, efficiency: float = 1.0) -> FloatArray:
    """Bytes over bandwidth, all its repetitions. Raises CatalogError where the system has no link for them."""
    total = np.zeros_like(np.asarray(t.inside_bytes, np.float64))
    for sent, link, which in (
        (t.inside_bytes, system.scaleup, "scale-up"),
        (t.outside_bytes, system.scaleout, "scale-out"),
    ):
        if np.any(sent):
            if link is None:
                raise CatalogError(
                    f"{t.name} needs a {which} link, and {system.name} has none in the catalog; "
                    f"keep each replica within {system.scaleup_chips if system.scaleup else 1} chips"
                )
            total = total + t.count * sent / (link.bytes_per_s * efficiency)
    return total


@dataclass(frozen=True, slots=True)
class OpPoint:
    """One operation of one step on the roofline. `floor_s` counts its activations' traffic too."""

    name: str
    part: str
    kind: str
    layers: int
    flops: float
    moved_bytes: float
    intensity_flops_per_byte: float
    ridge_flops_per_byte: float
    floor_s: float
    bound: str


def op_points(work: StepWork, chip: Chip) -> tuple[OpPoint, ...]:
    """For a work of a single step."""
    points: list[OpPoint] = []
    for op in work.ops:
        flops, moved = float(op.flops), float(op.memory_bytes + op.activation_bytes)
        if not flops and not moved:
            continue
        peak = rate_flops_per_s(chip, op.rate)
        compute_s, memory_s = flops / peak, moved / chip.hbm_bytes_per_s
        points.append(
            OpPoint(
                op.name,
                op.part,
                op.kind,
                op.layers,
                flops,
                moved,
                float(op.intensity),
                peak / chip.hbm_bytes_per_s,
                max(compute_s, memory_s),
                "compute" if compute_s > memory_s else "memory_bandwidth",
            )
        )
    return tuple(points)
