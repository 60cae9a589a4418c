"""Batches: where weights stop mattering, and what a rack makes."""

from __future__ import annotations

from headway.arithmetic.formats import Format, Precision, Rate
from headway.arithmetic.parameters import Parameters
from headway.catalog import Chip
from headway.roofline import rate_flops_per_s


def critical_batch(chip: Chip, rate: Rate, weights: Format, sparsity: float = 1.0) -> float:
    """Tokens a step at which multiplying takes as long as reading the weights once; KV is left out.

    (FLOPs/s) / (bytes/s) x (bytes a weight) / (2 FLOPs) x (total / active parameters).
    """
    ridge = rate_flops_per_s(chip, rate) / chip.hbm_bytes_per_s
    return ridge * weights.bits_per_value / 8 / 2 * sparsity


def model_critical_batch(chip: Chip, precision: Precision, counted: Parameters) -> float:
    """The same where routed experts may have a format and a rate of their own: all bytes of both parts are read, and a
    token is multiplied by its share of each.
    """
    experts, expert_rate = precision.of("experts"), precision.rate_of("experts")
    read_bytes = counted.always * precision.weights.bits_per_value + counted.experts * experts.bits_per_value
    multiply_s = counted.always / rate_flops_per_s(chip, precision.rate)
    multiply_s += counted.active_experts / rate_flops_per_s(chip, expert_rate)
    return read_bytes / 8 / chip.hbm_bytes_per_s / (2 * multiply_s)


def throughput_tokens_per_s(batch: float, step_s: float) -> float:
    return batch / step_s
