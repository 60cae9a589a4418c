"""What a step costs on a system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from headway.arithmetic.experts import FloatArray

Bound = Literal["compute", "memory_bandwidth", "network", "host"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)


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
        longest = np.argmax(np.stack([np.ravel(part) for part in self._parts()]), axis=0)
        return tuple(BOUNDS[i] for i in longest)

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

    def _parts(self) -> tuple[FloatArray, ...]:
        return tuple(np.broadcast_arrays(self.compute_s, self.memory_s, self.network_s, self.host_s))
