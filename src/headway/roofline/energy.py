"""Joules: by power and time, and by what moves and multiplies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.work import StepWork
from headway.catalog import Figure

JOULES_PER_WH = 3600.0


@dataclass(frozen=True, slots=True)
class DynamicEnergy:
    """Of one chip, by what is done: published estimates for some silicon. Idle power and all overheads are left out."""

    memory_j: FloatArray
    multiply_j: FloatArray

    @property
    def total_j(self) -> FloatArray:
        return self.memory_j + self.multiply_j


def dynamic_energy(
    work: StepWork, energy: Mapping[str, Figure], memory: str = "hbm2", multiply: str = "fp16_multiply_add"
) -> DynamicEnergy:
    """`energy`: the catalog's, by level."""
    return DynamicEnergy(work.memory_bytes * energy[memory].value, work.total("flops") * energy[multiply].value)


def flops_per_byte_read(energy: Mapping[str, Figure], memory: str, multiply: str = "fp16_multiply_add") -> float:
    """FLOPs that cost as much energy as reading one byte."""
    return energy[memory].value / energy[multiply].value
