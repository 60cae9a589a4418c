"""What prices imply about what serves an API. Each answer is a range and a hypothesis: a price is also a choice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.arithmetic.shape import ShapeError
from headway.catalog import Chip, Price, System, Tier
from headway.catalog.reach import Reach, reaches, uncertain_tiers
from headway.planner.economics import implied_kv_bytes_per_token
from headway.planner.uncertain import HOST, rent_of, uncertain_figures
from headway.roofline import rate_flops_per_s

TTL_S = 300.0
LONG_TTL_S = 3600.0
PREFILL_UTILISATION = (0.4, 0.9)
FORMULAS = (
    "utilisation of arithmetic in decode = that in prefill / (output price / input price)",
    "KV a token <= cached price / input price x (time to compute a token) x (bandwidth of the tier)",
    "KV a token at a price step = 2 x active / (tokens of the step x FLOPs a byte of the chip)",
    "KV a token that a cache write pays for = (write price - input price) / (time to live x price of holding a byte)",
    "a tier whose drain time is near the time to live turns over once in it",
)
ASSUMPTIONS = (
    "every price carries the same margin, which no seller promises",
    "compute a token = 2 x active / (peak x utilisation), attention left out",
    f"times to live: {TTL_S:.0f} s for a write, {LONG_TTL_S:.0f} s for the dearer one, as usual where both are offered",
    "sparse attention, shared layers or a smaller model give the same numbers: read ranges, not points",
)


@dataclass(frozen=True, slots=True)
class Range:
    """`reading` says what it would mean if the hypothesis held."""

    hypothesis: str
    low: float
    high: float
    unit: str
    reading: str


@dataclass(frozen=True, slots=True)
class TierHint:
    tier: str
    drain_s: float
    drain_over_ttl: float
    kv_bytes_per_token_paid: float | None
    """Most that the write premium would pay for in this tier, for the time to live."""
    kv_bytes_per_token_paid_long: float | None
    """By the dearer write, for its longer time."""


@dataclass(frozen=True, slots=True)
class ImpliedReport:
    price: str
    provider: str
    active_params_low: float
    active_params_high: float
    chip: str
    output_over_input: float
    cached_over_input: float | None
    cache_write_over_input: float | None
    step_threshold_tokens: int | None
    step_over_input: float | None
    step_over_output: float | None
    tier_of_ttl: str | None
    """Whose drain time is nearest; None: cache writes are not sold."""
    tier_of_long_ttl: str | None
    hypotheses: tuple[Range, ...]
    tiers: tuple[TierHint, ...]
    source: str
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def implied_report(
    price: Price,
    system: System,
    tiers: Mapping[str, Tier],
    active: tuple[float, float],
    usd_per_chip_hour: float | None,
    life_years: float,
) -> ImpliedReport:
    """`active`: least and most active parameters. Raises ShapeError if they are the wrong way round."""
    low, high = active
    if not 0 < low <= high:
        raise ShapeError(f"active parameters must rise from above 0: {low:g} to {high:g}")
    chip = system.chip
    found = [_utilisation(price.output_over_input)]
    if price.cached_over_input:
        found.append(_cached(price.cached_over_input, active, system, tiers))
    if price.step_threshold_tokens is not None:
        found.append(_step(price.step_threshold_tokens, active, chip))
    write, long_write = price.cache_write_usd_per_mtok, price.cache_write_1h_usd_per_mtok
    known = reaches(system, tiers, usd_per_chip_hour, life_years)
    found += [_turnover(known, ttl_s) for ttl_s, sold in ((TTL_S, write), (LONG_TTL_S, long_write)) if sold]
    hints = [
        TierHint(
            reach.name,
            reach.drain_s,
            reach.drain_s / TTL_S,
            _paid(write, price.input_usd_per_mtok, reach, TTL_S),
            _paid(long_write, price.input_usd_per_mtok, reach, LONG_TTL_S),
        )
        for reach in known
    ]
    return ImpliedReport(
        price.model,
        price.provider,
        low,
        high,
        chip.name,
        price.output_over_input,
        price.cached_over_input,
        None if write is None else write / price.input_usd_per_mtok,
        price.step_threshold_tokens,
        price.step_over_input,
        price.step_over_output,
        _nearest(known, TTL_S) if write else None,
        _nearest(known, LONG_TTL_S) if long_write else None,
        tuple(found),
        tuple(hints),
        f"{price.source}, {price.date}",
        uncertain_figures(system, *HOST, *rent_of(chip, usd_per_chip_hour)) + uncertain_tiers(tiers),
    )


def _paid(write_usd: float | None, input_usd: float, reach: Reach, ttl_s: float) -> float | None:
    """Bytes a token whose holding costs what a write costs beyond plain input."""
    if write_usd is None or write_usd <= input_usd or not reach.usd_per_byte_hour:
        return None
    return (write_usd - input_usd) / 1e6 / (ttl_s / 3600 * reach.usd_per_byte_hour)


def _nearest(known: Sequence[Reach], ttl_s: float) -> str:
    return min(known, key=lambda reach: abs(math.log(reach.drain_s / ttl_s))).name


def _turnover(known: Sequence[Reach], ttl_s: float) -> Range:
    quicker = max((r for r in known if r.drain_s <= ttl_s), key=lambda r: r.drain_s, default=None)
    slower = min((r for r in known if r.drain_s > ttl_s), key=lambda r: r.drain_s, default=None)
    beside = [reach for reach in (quicker, slower) if reach is not None]
    return Range(
        f"a cache sold for {ttl_s:.0f} s is in a tier, full and evenly used, that turns over in that time",
        beside[0].drain_s,
        beside[-1].drain_s,
        "s to drain the tier",
        f"{' to '.join(reach.name for reach in beside)}, nearest {_nearest(known, ttl_s)}",
    )


def _utilisation(ratio: float) -> Range:
    low, high = (u / ratio for u in PREFILL_UTILISATION)
    return Range(
        "a token's price follows its chip-time",
        low,
        high,
        "share of the arithmetic busy in decode",
        f"prefill at {PREFILL_UTILISATION[0]:.0%} to {PREFILL_UTILISATION[1]:.0%}, a token of decode {ratio:g} times",
    )


def _cached(ratio: float, active: tuple[float, float], system: System, tiers: Mapping[str, Tier]) -> Range:
    peak = rate_flops_per_s(system.chip, "fp8")
    rates = [r.read_bytes_per_s for r in reaches(system, tiers, None, 1.0) if r.name in ("dram", "ssd", "remote")]
    slow, fast = (2 * n / (peak * u) for n, u in zip(active, reversed(PREFILL_UTILISATION), strict=True))
    return Range(
        "a cached token costs the time to load it from host memory, drives or another machine",
        ratio * slow * min(rates, default=1.0),
        ratio * fast * max(rates, default=1.0),
        "bytes of KV a token, at most",
        "a larger cache would be loaded at a loss; a smaller one leaves a margin or pays for holding it",
    )


def _step(tokens: int, active: tuple[float, float], chip: Chip) -> Range:
    fastest = rate_flops_per_s(chip, "fp8")
    ridges = sorted(peak / chip.hbm_bytes_per_s for peak in (chip.bf16_flops_per_s or fastest, fastest))
    return Range(
        "the step stands where reading a sequence's KV takes as long as multiplying its token's weights",
        implied_kv_bytes_per_token(active[0], tokens, ridges[-1]),
        implied_kv_bytes_per_token(active[1], tokens, ridges[0]),
        "bytes of KV a token",
        "grouped attention in every layer takes some 100 kB and more, latent some 70 kB (bf16): less means windows, "
        "sparse attention or shared layers",
    )
