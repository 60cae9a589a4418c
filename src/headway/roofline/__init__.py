"""StepWork on a system: how long, what bounds it, how much energy."""

from headway.roofline.calibrated import Coefficients, calibrated_cost, coefficients
from headway.roofline.capacity import MemoryPlan, memory_plan
from headway.roofline.cost import BOUNDS, Bound, StepCost
from headway.roofline.floor import OpPoint, floor_cost, op_points, rate_flops_per_s

__all__ = [
    "BOUNDS",
    "Bound",
    "Coefficients",
    "MemoryPlan",
    "OpPoint",
    "StepCost",
    "calibrated_cost",
    "coefficients",
    "floor_cost",
    "memory_plan",
    "op_points",
    "rate_flops_per_s",
]
