"""StepWork on a system: how long, what bounds it, how much energy."""

from headway.roofline.calibrated import Calibration, calibrated_cost, calibration, coefficients
from headway.roofline.capacity import MemoryPlan, memory_plan
from headway.roofline.coefficients import Coefficients, Serving
from headway.roofline.cost import BOUNDS, LIMITS, Bound, Limit, StepCost
from headway.roofline.floor import OpPoint, floor_cost, op_points, rate_flops_per_s

__all__ = [
    "BOUNDS",
    "LIMITS",
    "Bound",
    "Calibration",
    "Coefficients",
    "Limit",
    "MemoryPlan",
    "OpPoint",
    "Serving",
    "StepCost",
    "calibrated_cost",
    "calibration",
    "coefficients",
    "floor_cost",
    "memory_plan",
    "op_points",
    "rate_flops_per_s",
]
