"""What holds a decode step back: the parts of its time, the room in memory, the power that the chips may draw."""

from __future__ import annotations

from dataclasses import dataclass

from headway.planner.deployment import Deployment
from headway.roofline import LIMITS, Calibration, Limit, StepCost
from headway.roofline.calibrated import calibrated_energy_j


@dataclass(frozen=True, slots=True)
class BoundShare:
    bound: Limit
    share: float | None
    """Of the step that this resource is busy; of the usable memory; of the power cap. None: it cannot be told."""
    holds: bool
    says: str


def bounds(where: Deployment, batch: int, context: int) -> tuple[BoundShare, ...]:
    """Of a decode step, by the fit if there is one, else the floor; exactly one of them holds."""
    cost = where.cost(where.decode_shape(batch, context))
    step_s = float(cost.step_s)
    parts = (cost.compute_s, cost.memory_s, cost.network_s, cost.host_s)
    full, room = _capacity(where, batch, context)
    drawn, power = _power(where, cost)
    shares = (*(float(part) / step_s for part in parts), full, drawn)
    host = "of the step" if where.fitted else "a floor leaves the host out"
    says = (*("of the step",) * 3, host, room, power)
    held = held_by(cost.bound[0], full > 1, drawn)
    return tuple(
        BoundShare(bound, share, bound == held, said) for bound, share, said in zip(LIMITS, shares, says, strict=True)
    )


def held_by(longest: str, full: bool, drawn: float | None) -> str:
    """What does not fit is not run at all; what draws too much runs slower."""
    if full:
        return "memory_capacity"
    return "power" if drawn is not None and drawn > 1 else longest


def _capacity(where: Deployment, batch: int, context: int) -> tuple[float, str]:
    plan = where.memory(context, batch)
    share = (plan.weights_bytes + plan.kv_bytes) / plan.usable_bytes
    return share, f"of the usable memory; at most {plan.max_batch:,} sequences of {context:,} tokens fit"


def has_joules(fitted: Calibration) -> bool:
    """Whether anybody measured what a FLOP or a byte takes there."""
    return bool(fitted.coefficients.compute_j_per_flop or fitted.coefficients.memory_j_per_byte)


def _power(where: Deployment, cost: StepCost) -> tuple[float | None, str]:
    """Power is energy over time. An estimate for other silicon would be off by more than what is asked."""
    chip, fitted = where.system.chip, where.fitted
    if fitted is None or not has_joules(fitted):
        return None, f"not judged: the catalog has no measured joules a FLOP and byte of {chip.name}"
    if chip.tdp_w is None:
        return None, f"not judged: no power cap of {chip.name} is published"
    watts = float(calibrated_energy_j(cost, fitted.coefficients) / cost.step_s) / cost.chips
    return watts / chip.tdp_w, f"of the {chip.tdp_w:g} W cap: {watts:.4g} W at this speed"
