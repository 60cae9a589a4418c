"""Loading a model's weights, or swapping one model for another: how long, and when keeping it loaded pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.arithmetic.parallelism import weight_bytes, weight_bytes_per_chip
from headway.catalog import Tier
from headway.catalog.reach import reaches, uncertain_tiers
from headway.planner.deployment import Deployment
from headway.planner.uncertain import HOST, uncertain_figures

FORMULAS = (
    "load = latency + weights of one chip / the tier's bandwidth to one chip",
    "decode steps lost = load / step",
    "keeping idle weights in memory pays for gaps up to load x memory / weights: after that the room was worth more",
)
ASSUMPTIONS = (
    "each chip loads its own share at once; weights are read-only, so what they replace is dropped, not written",
    "graph capture, compilation and warm-up are left out: real engines add seconds to minutes",
    "the room that idle weights take is worth its share of the chip, which a load keeps waiting whole",
)


@dataclass(frozen=True, slots=True)
class WeightLoad:
    tier: str
    in_system: bool
    """It has such a tier; others are supposed."""
    load_s: float
    steps_lost: float
    keep_for_s: float


@dataclass(frozen=True, slots=True)
class LoadReport:
    model: str
    system: str
    chips: int
    weight_format: str
    weight_bytes: int
    weight_bytes_per_chip: float
    share_of_memory: float
    batch: int
    context_tokens: int
    step_s: float
    tiers: tuple[WeightLoad, ...]
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def load_report(where: Deployment, tiers: Mapping[str, Tier], batch: int, context: int) -> LoadReport:
    where.check_fits(context, batch)
    share = weight_bytes_per_chip(where.model, where.precision, where.cut)
    part = share / where.system.chip.hbm_bytes
    step_s = float(where.decode_s(batch, context))
    found = (r for r in reaches(where.system, tiers, None, 1.0) if not r.own)
    return LoadReport(
        where.name,
        where.system.name,
        where.cut.chips,
        where.precision.named,
        weight_bytes(where.model, where.precision),
        share,
        part,
        batch,
        context,
        step_s,
        tuple(WeightLoad(r.name, r.is_there, s := r.read_s(share), s / step_s, s / part) for r in found),
        uncertain_figures(where.system, *HOST) + uncertain_tiers(tiers),
    )
