"""Compute a prefix again or load its cache: from which tier, and for how long holding it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.arithmetic.attends import spans
from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.parallelism import fullest_stage, kv_bytes_per_chip
from headway.arithmetic.step_shape import prefill
from headway.catalog import Tier
from headway.catalog.reach import Reach, reaches, uncertain_tiers
from headway.planner.deployment import Deployment
from headway.planner.uncertain import HOST, rent_of, uncertain_figures

FORMULAS = (
    "recompute = the prompt's floor / mfu, or by the fit if there is one",
    "load = latency + KV of one chip / the tier's bandwidth to one chip",
    "pays for = cost of computing again / cost of holding an hour",
    "cost of holding = bytes held x (chip-hour / chip's memory, or price / life)",
    "bytes held = KV, in a memory that one chip alone reads with every copy that its chips need: KV heads that tensor "
    "parallelism does not divide, and latents, are in each",
)
ASSUMPTIONS = (
    "each chip loads its own share of the cache, all at once, over its own link or drive",
    "a load goes on beside other work, so it costs time but no chip-time; writing the cache out is free",
    "tiers are read at their peak by one request at a time; a cache larger than a device is spread over several",
    "devices are paid off evenly over their life, their power is left out",
    "the best is chosen among the tiers that the system has; the others are supposed beside it",
)


@dataclass(frozen=True, slots=True)
class TierChoice:
    tier: str
    in_system: bool
    """It has such a tier; others are supposed."""
    load_s: float
    load_over_recompute: float
    """Below 1: loading is faster."""
    held_bytes: float
    """Over all chips, every copy."""
    devices: float
    """That these bytes fill."""
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
    """Raises ShapeError if it does not fit."""
    where.check_fits(tokens, 1)
    size = kv_bytes(where.model, tokens, where.precision)
    share = kv_bytes_per_chip(where.model, tokens, 1, where.precision, where.cut)
    prompt = where.prompt(tokens)
    recompute_s, chip_s = prompt.alone_s, prompt.together_s * where.cut.chips
    cost = None if usd_per_chip_hour is None else chip_s * usd_per_chip_hour / 3600
    known = reaches(where.system, tiers, usd_per_chip_hour, life_years)
    copies = share / fullest_stage(where.model, where.cut) * where.cut.tensor * where.cut.context
    choices = tuple(_choice(reach, copies if reach.by_chip else size, share, recompute_s, cost) for reach in known)
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
        _best([choice for choice, reach in zip(choices, known, strict=True) if not reach.own]),
        choices,
        uncertain_figures(where.system, *HOST, *rent_of(where.system.chip, usd_per_chip_hour)) + uncertain_tiers(tiers),
    )


def _best(away: Sequence[TierChoice]) -> str:
    """Of tiers beyond the chip's memory."""
    there = [choice for choice in away if choice.in_system]
    fastest = min(there, key=lambda choice: choice.load_s, default=None)
    said = "none: computing again is faster than every tier of this system"
    if fastest is not None and fastest.load_over_recompute < 1:
        slower = [choice.tier for choice in there if choice.load_over_recompute >= 1]
        said = f"load: {fastest.tier} is fastest" + (f"; from {', '.join(slower)} compute again" if slower else "")
    beat = min(1.0, fastest.load_over_recompute if fastest else 1.0)
    supposed = [choice for choice in away if not choice.in_system and choice.load_over_recompute < beat]
    faster = ", ".join(f"{choice.tier} would take {choice.load_s * 1e3:.3g} ms" for choice in supposed)
    return said + (f"; if it had them: {faster}" if faster else "")


def _choice(reach: Reach, held: float, share: float, recompute_s: float, cost: float | None) -> TierChoice:
    load_s = 0.0 if reach.own else reach.read_s(share)
    hold = None if reach.usd_per_byte_hour is None else held * reach.usd_per_byte_hour
    pays = None if hold is None or cost is None or not hold else cost / hold * 3600
    return TierChoice(
        reach.name,
        reach.is_there,
        load_s,
        load_s / recompute_s,
        held,
        held / reach.bytes,
        reach.drain_s,
        hold,
        pays,
    )
