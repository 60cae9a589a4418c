"""Batches: where weights stop mattering, and what a rack makes."""

from __future__ import annotations

from headway.arithmetic.formats import Format, Rate
from headway.arithmetic.parameters import Parameters
from headway.catalog import Chip
from headway.roofline import rate_flops_per_s


def critical_batch(chip: Chip, rate: Rate, weights: Format, sparsity: float = 1.0) -> float:
    """Tokens a step at which multiplying takes as long as reading the weights once; KV is left out.

    (FLOPs/s) / (bytes/s) x (bytes a weight) / (2 FLOPs) x (total / active parameters).
    """
    ridge = rate_flops_per_s(chip, rate) / chip.hbm_bytes_per_s
    return ridge * weights.bits_per_value / 8 / 2 * sparsity


def model_critical_batch(chip: Chip, rate: Rate, weights: Format, counted: Parameters) -> float:
    return critical_batch(chip, rate, weights, counted.sparsity)


def throughput_tokens_per_s(batch: float, step_s: float) -> float:
    return batch / step_s
