"""The best few configurations for an SLO, and what makes the first better than the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape
from headway.catalog import System
from headway.planner.sweep import ASSUMPTIONS, MAX_CHIPS, Configuration, common_fits, sweeps
from headway.roofline import Calibration

ORDER = "ordered by tokens/s a chip, or by dollars where every chip compared has a known rent; then by fewer chips"


@dataclass(frozen=True, slots=True)
class BestReport:
    model: str
    context_tokens: int
    slo_tokens_per_s: float
    cost_model: str
    ordered_by: str
    considered: int
    best: tuple[Configuration, ...]
    """One for each cut and format, at the batch that suits it best; empty: nothing reaches the SLO."""
    why: str
    assumptions: tuple[str, ...] = (*ASSUMPTIONS, ORDER)


def best_report(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    context: int,
    slo_tokens_per_s: float,
    fitted: Mapping[str, Calibration] | None = None,
    max_chips: int = MAX_CHIPS,
    count: int = 5,
) -> BestReport:
    fits = common_fits(systems, fitted or {})
    tried = sweeps(model, systems, precisions, context, fits, max_chips)
    reached = [s.configuration(j) for s in tried if (j := s.best_at(slo_tokens_per_s)) is not None]
    by_money = all(system.chip.rent_usd_per_hour is not None for system in systems)

    def rank(c: Configuration) -> tuple[float, int]:
        return (c.usd_per_mtok if by_money and c.usd_per_mtok else -c.throughput_tokens_per_s_per_chip, c.chips)

    best = tuple(sorted(reached, key=rank)[:count])
    return BestReport(
        name,
        context,
        slo_tokens_per_s,
        "calibrated" if fits else "floor",
        "usd_per_mtok" if by_money else "throughput_tokens_per_s_per_chip",
        sum(len(s.batches) for s in tried),
        best,
        _why(best, slo_tokens_per_s, bool(tried), by_money),
    )


def _why(best: Sequence[Configuration], slo_tokens_per_s: float, any_fits: bool, by_money: bool) -> str:
    if not any_fits:
        return "the model fits no replica that these systems can form: more chips, more memory or narrower formats"
    if not best:
        return f"no configuration gives every user {slo_tokens_per_s:g} tokens/s: lower it, or shorten the context"
    first, *rest = best
    if not rest:
        return "no other cut reaches the SLO"
    second = rest[0]
    if by_money and first.usd_per_mtok and second.usd_per_mtok:
        gap, measure = second.usd_per_mtok / first.usd_per_mtok - 1, "costs {:.1%} more a token"
    else:
        gap = first.throughput_tokens_per_s_per_chip / second.throughput_tokens_per_s_per_chip - 1
        measure = "makes {:.1%} fewer tokens a chip"
        gap = gap / (1 + gap)
    return (
        f"the second {measure.format(gap)}: at {slo_tokens_per_s:g} tokens/s a user its {second.chips} chips carry "
        f"{second.batch / second.chips:.4g} sequences each ({second.bound.replace('_', ' ')} bound), the first's "
        f"{first.chips} carry {first.batch / first.chips:.4g} ({first.bound.replace('_', ' ')} bound)"
    )
