"""Compute a prefix again or load its cache: from which tier, and for how long holding it pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.arithmetic.attends import spans
from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.parallelism import kv_bytes_per_chip
from headway.arithmetic.step_shape import prefill
from headway.catalog import Tier
from headway.catalog.reach import Reach, reaches, uncertain_tiers
from headway.planner.deployment import Deployment
from headway.planner.uncertain import uncertain_figures

FORMULAS = (
    "recompute = the prompt's floor / mfu, or by the fit if there is one",
    "load = latency + KV of one chip / the tier's bandwidth to one chip",
    "pays for = cost of computing again / cost of holding an hour",
    "cost of holding = bytes x (chip-hour / chip's memory, or price / life)",
)
ASSUMPTIONS = (
    "each chip loads its own share of the cache, all at once, over its own link or drive",
    "a load goes on beside other work, so it costs time but no chip-time; writing the cache out is free",
    "tiers are read at their peak by one request at a time; a cache larger than a device is spread over several",
    "devices are paid off evenly over their life, their power is left out",
)


@dataclass(frozen=True, slots=True)
class TierChoice:
    tier: str
    load_s: float
    load_over_recompute: float
    """Below 1: loading is faster."""
    devices: float
    """That the cache fills, over all chips."""
    drain_s: float
    hold_usd_per_hour: float | None
    pays_for_s: float | None
    """How long holding costs less than computing again once; None: no price."""


@dataclass(frozen=True, slots=True)
class PrefixReport:
    model: str
    system: str
    chips: int
    tokens: int
    kv_bytes: int
    kv_bytes_per_chip: float
    mfu: float
    """Speed over that of the floor."""
    recompute_s: float
    recompute_usd: float | None
    best: str
    tiers: tuple[TierChoice, ...]
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def prefix_report(
    where: Deployment,
    tiers: Mapping[str, Tier],
    tokens: int,
    usd_per_chip_hour: float | None,
    life_years: float,
) -> PrefixReport:
    size = kv_bytes(where.model, tokens, where.precision)
    share = kv_bytes_per_chip(where.model, tokens, 1, where.precision, where.cut)
    recompute_s = where.prefill_s(tokens)
    cost = None if usd_per_chip_hour is None else recompute_s * where.cut.stage_chips * usd_per_chip_hour / 3600
    known = reaches(where.system, tiers, usd_per_chip_hour, life_years)
    choices = tuple(_choice(reach, size, share, recompute_s, cost) for reach in known)
    away = [choice for choice, reach in zip(choices, known, strict=True) if not reach.own]
    fastest = min(away, key=lambda choice: choice.load_s, default=None)
    slower = [c.tier for c in away if c.load_over_recompute >= 1]
    said = "none: computing again is faster than every tier"
    if fastest is not None and fastest.load_over_recompute < 1:
        said = f"load: {fastest.tier} is fastest" + (f"; from {', '.join(slower)} compute again" if slower else "")
    return PrefixReport(
        where.name,
        where.system.name,
        where.cut.chips,
        tokens,
        size,
        share,
        float(where.floor(prefill(spans(where.model), tokens)).step_s) / recompute_s,
        recompute_s,
        cost,
        said,
        choices,
        uncertain_figures(where.system) + uncertain_tiers(tiers),
    )


def _choice(reach: Reach, size: int, share: float, recompute_s: float, cost: float | None) -> TierChoice:
    load_s = 0.0 if reach.own else reach.read_s(share)
    hold = None if reach.usd_per_byte_hour is None else size * reach.usd_per_byte_hour
    pays = None if hold is None or cost is None or not hold else cost / hold * 3600
    return TierChoice(reach.name, load_s, load_s / recompute_s, size / reach.bytes, reach.drain_s, hold, pays)
