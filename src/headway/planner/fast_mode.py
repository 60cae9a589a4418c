"""What a fast mode costs: the cheapest way to give every user so many times the tokens/s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.catalog import System
from headway.planner.economics import price_multiplier
from headway.planner.lengths import Lengths, asked_tokens
from headway.planner.pareto import pareto_report
from headway.planner.sweep import Configuration
from headway.roofline import Calibration

FORMULAS = (
    "multiplier = chips a token at the fast speed / chips a token at the base, each the best on the frontier",
    "at equal margin the price grows as the cost does",
)


@dataclass(frozen=True, slots=True)
class FastModeReport:
    model: str
    cost_model: str
    context_tokens: int
    prompt_tokens: int | None
    """None: decode only."""
    cached_tokens: int | None
    output_tokens: int | None
    base_tokens_per_s: float
    fast_tokens_per_s: float
    price_multiplier: float
    base: Configuration
    fast: Configuration
    formulas: tuple[str, ...]
    assumptions: tuple[str, ...]


def fast_mode_report(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    load: Lengths | int,
    fitted: Mapping[str, Calibration],
    max_chips: int,
    base_tokens_per_s: float,
    times: float,
    slo_ttft_s: float | None = None,
) -> FastModeReport:
    """Raises ShapeError if one of the speeds is out of reach."""
    found = []
    for speed in (base_tokens_per_s, base_tokens_per_s * times):
        report = pareto_report(name, model, systems, precisions, load, fitted, speed, max_chips, slo_ttft_s)
        if report.best_at_slo is None:
            raise ShapeError(f"nothing gives every user {speed:g} tokens/s: {'; '.join(map(str, report.left_out))}")
        found.append(report.best_at_slo)
    base, fast = found
    cost = price_multiplier(1 / fast.throughput_tokens_per_s_per_chip, 1 / base.throughput_tokens_per_s_per_chip)
    return FastModeReport(
        name,
        report.cost_model,
        *asked_tokens(load),
        base_tokens_per_s,
        base_tokens_per_s * times,
        cost,
        base,
        fast,
        (*FORMULAS, *report.formulas),
        report.assumptions,
    )
