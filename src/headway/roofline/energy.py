"""Joules: by power and time, and by what moves and multiplies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.arithmetic.formats import Rate
from headway.catalog import Chip, Figure
from headway.roofline.coefficients import Coefficients
from headway.roofline.floor import rate_flops_per_s

JOULES_PER_WH = 3600.0
MULTIPLY = "fp16_multiply_add"


def flops_per_byte_read(energy: Mapping[str, Figure], memory: str, multiply: str = MULTIPLY) -> float:
    """FLOPs that cost as much energy as reading one byte."""
    return energy[memory].value / energy[multiply].value


def memory_level(chip: Chip) -> str | None:
    """The catalog's level for a chip's main memory: some HBM is taken for HBM2, all else for DRAM. None: it is SRAM, of
    which only a small one is known.
    """
    kind = chip.hbm_type.lower()
    return None if kind.startswith("sram") else "hbm2" if kind.startswith("hbm") else "dram"


@dataclass(frozen=True, slots=True)
class WorkEnergy:
    """Dynamic joules of a FLOP and of a byte of main memory, of one chip."""

    flop_j: float
    byte_j: float
    is_measured: bool

    def within(self, power_w: float, flops_per_s: float, bytes_per_s: float) -> WorkEnergy:
        """Scaled down where at both peaks at once it would draw more than this power."""
        drawn_w = self.flop_j * flops_per_s + self.byte_j * bytes_per_s
        scale = min(1.0, power_w / drawn_w)
        return WorkEnergy(self.flop_j * scale, self.byte_j * scale, self.is_measured)


def work_energy(
    chip: Chip, rates: Sequence[Rate], energy: Mapping[str, Figure], known: Coefficients | None = None
) -> WorkEnergy | None:
    """As a fit has measured it, else the catalog's estimate by level, `energy`. Nothing that a chip can do at these
    `rates` draws more than its power limit. None: it publishes no limit, or there is no figure for its memory.
    """
    level = memory_level(chip)
    if chip.tdp_w is None:
        return None
    if known is not None and (known.compute_j_per_flop or known.memory_j_per_byte):
        each = WorkEnergy(known.compute_j_per_flop, known.memory_j_per_byte, True)
    elif level is not None and energy.keys() >= {level, MULTIPLY}:
        each = WorkEnergy(energy[MULTIPLY].value, energy[level].value, False)
    else:
        return None
    fastest = max(rate_flops_per_s(chip, rate) for rate in rates)
    return each.within(chip.tdp_w, fastest, chip.hbm_bytes_per_s)
