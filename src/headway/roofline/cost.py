"""What a step costs on a system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from headway.arithmetic.experts import FloatArray

Bound = Literal["compute", "memory_bandwidth", "network", "host"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)
"""What takes up the time of a step."""
Limit = Literal[Bound, "memory_capacity", "power"]
LIMITS: tuple[Limit, ...] = (*BOUNDS, "memory_capacity", "power")
"""And what keeps a step from being larger or faster."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of the busiest chip, arrays [...], a step each; with pipeline stages, one pass through all of them.

    In the floor the step takes the longest of these, in the calibrated model a sum; each is what that resource is busy.
    """

    compute_s: FloatArray
    memory_s: FloatArray
    network_s: FloatArray
    host_s: FloatArray
    step_s: FloatArray
    flops: FloatArray
    memory_bytes: FloatArray
    chips: int

    @property
    def bound(self) -> tuple[Bound, ...]:
        """The longest, one for each step in flat order; the first named wins a tie."""
        return tuple(BOUNDS[i] for i in np.ravel(np.argmax(self.busy_s, axis=0)))

    @property
    def busy_s(self) -> FloatArray:
        """[4, ...] how long each of BOUNDS is."""
        return np.stack(np.broadcast_arrays(self.compute_s, self.memory_s, self.network_s, self.host_s))

    @property
    def intensity(self) -> FloatArray:
        """FLOPs for each byte of main memory."""
        return self.flops / self.memory_bytes

    @property
    def arithmetic_utilisation(self) -> FloatArray:
        """Share of the step in which the arithmetic units would be busy at their peak."""
        return self.compute_s / self.step_s

    @property
    def bandwidth_utilisation(self) -> FloatArray:
        return self.memory_s / self.step_s

    def energy_at_power_j(self, power_w: float) -> FloatArray:
        """Of all chips, if each draws `power_w` throughout."""
        return self.step_s * self.chips * power_w
