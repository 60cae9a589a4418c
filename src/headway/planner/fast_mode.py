"""What a fast mode costs: the cheapest way to give every user so many times the tokens/s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.catalog import System
from headway.planner.best import best_report
from headway.planner.economics import price_multiplier
from headway.planner.lengths import Lengths, asked_tokens
from headway.planner.sweep import Configuration
from headway.roofline import Calibration

FORMULAS = (
    "multiplier = cost of a token at the fast speed / at the base, of the configuration that is first in `plan best`",
    "cost: dollars where the rents of both chips are known, else chip-seconds",
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
    uncertain: tuple[str, ...]


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
        report = best_report(name, model, systems, precisions, load, speed, fitted, max_chips, 1, slo_ttft_s)
        if not report.best:
            raise ShapeError(f"nothing gives every user {speed:g} tokens/s: {'; '.join(map(str, report.left_out))}")
        found.append(report.best[0])
    base, fast = found
    return FastModeReport(
        name,
        report.cost_model,
        *asked_tokens(load),
        base_tokens_per_s,
        base_tokens_per_s * times,
        price_multiplier(_cost(fast, base), _cost(base, fast)),
        base,
        fast,
        (*FORMULAS, *report.formulas),
        report.assumptions,
        report.uncertain,
    )


def _cost(of: Configuration, beside: Configuration) -> float:
    """Of a token: dollars if those of both are known, else chip-seconds."""
    if of.usd_per_mtok is None or beside.usd_per_mtok is None:
        return 1 / of.throughput_tokens_per_s_per_chip
    return of.usd_per_mtok
