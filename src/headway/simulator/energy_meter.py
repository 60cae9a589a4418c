"""Joules of a replica: every chip at its power limit while the replica is busy.

What FLOPs and bytes account for goes by them, the rest (idle power, and all that a chip does besides) by time. Where no
joules of a FLOP and a byte are known, all of it goes by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headway.roofline import coefficients
from headway.roofline.energy import WorkEnergy, work_energy
from headway.scheduler.contract import Ints

if TYPE_CHECKING:
    from headway.arithmetic.formats import Rate
    from headway.simulator.simulation import Setup


@dataclass(frozen=True, slots=True)
class EnergyMeter:
    """`power_w` of all chips of a replica; None: not published. `work` None: all joules go by time."""

    power_w: float | None = None
    work: WorkEnergy | None = None

    def busy_nj(self, busy_ns: int) -> int:
        """Of so much time since the start of the run."""
        return round((self.power_w or 0.0) * busy_ns)

    def work_nj(self, flops: Ints, moved_bytes: Ints) -> Ints:
        """[N] what FLOPs and bytes account for; nothing where that is not known."""
        if self.work is None:
            return np.zeros_like(flops)
        joules = flops * self.work.flop_j + moved_bytes * self.work.byte_j
        return np.rint(joules * 1e9).astype(np.int64)

    @property
    def rule(self) -> str:
        """In words, by what joules are shared out."""
        if self.power_w is None:
            return "unknown: no power published"
        if self.work is None:
            return "by time"
        source = "as measured" if self.work.is_measured else "as estimated for other silicon"
        return f"by FLOPs and bytes, {source}; the rest by time"


def energy_meter(pool: Setup, rates: Sequence[Rate]) -> EnergyMeter:
    """Of a replica whose products have these rates. By time where it is on two systems. Raises CatalogError where the
    chip publishes none of a rate.
    """
    power_w = pool.replica_price.power_w
    if power_w is None or pool.feed_forward is not None:
        return EnergyMeter(power_w)
    known = None if pool.calibration is None else coefficients(pool.calibration)
    return EnergyMeter(power_w, work_energy(pool.system.chip, rates, pool.energy, known))
