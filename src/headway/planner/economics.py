"""What prices imply, and what tokens cost. Implications are hypotheses: a price is also a choice of its seller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpendShares:
    """Of what a workload pays for; they add up to 1."""

    cached: float
    new: float
    output: float


def spend_shares(
    cached_tokens: float,
    new_tokens: float,
    output_tokens: float,
    cached_ratio: float,
    output_ratio: float,
    new_ratio: float = 1.0,
) -> SpendShares:
    """Ratios to the price of an input token that is neither read from nor written to a cache."""
    paid = (cached_tokens * cached_ratio, new_tokens * new_ratio, output_tokens * output_ratio)
    return SpendShares(*(part / sum(paid) for part in paid))


def usd_per_mtok(usd_per_chip_hour: float, chips: int, tokens_per_s: float) -> float:
    return usd_per_chip_hour * chips / 3600 / tokens_per_s * 1e6


def implied_kv_bytes_per_token(active_params: float, step_tokens: int, ridge_flops_per_byte: float) -> float:
    """If a price step at `step_tokens` of context marks where reading a sequence's KV takes as long as multiplying the
    weights for its token: 2 x active / (FLOPs/s) = tokens x kv / (bytes/s).

    A hypothesis: sparse attention, shared layers or a smaller model give the same step.
    """
    return 2 * active_params / (step_tokens * ridge_flops_per_byte)


def price_multiplier(cost_per_mtok: float, base_cost_per_mtok: float) -> float:
    """Of a faster mode, at equal margin."""
    return cost_per_mtok / base_cost_per_mtok


def growth_gap(revenue_growth: float, compute_growth: float) -> float:
    """How much more each unit of compute must earn a year later."""
    return revenue_growth / compute_growth
