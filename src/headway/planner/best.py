"""The best few configurations for an SLO, and what makes the first better than the second."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape
from headway.catalog import System
from headway.planner.basis import assumptions, formulas
from headway.planner.left_out import LeftOut, left_out
from headway.planner.lengths import Lengths, asked_tokens, rate_that_counts
from headway.planner.sweep import MAX_CHIPS, Configuration, common_fits, deployments, sweeps
from headway.planner.uncertain import RENT, uncertain_of_several
from headway.roofline import Calibration

ORDER = (
    "ordered by tokens/s a chip, or by dollars where every chip compared has a known rent; figures that agree in three "
    "digits are a tie; then by fewer chips, tokens/s a user, TTFT, fewer stages, groups and parts of a cache"
)


@dataclass(frozen=True, slots=True)
class BestReport:
    model: str
    context_tokens: int
    """Of each sequence; with prompts that of one half way through its output."""
    prompt_tokens: int | None
    """None: decode only."""
    cached_tokens: int | None
    output_tokens: int | None
    slo_tokens_per_s: float | None
    """None: nobody sees it."""
    slo_ttft_s: float | None
    cost_model: str
    ordered_by: str
    considered: int
    best: tuple[Configuration, ...]
    """One for each cut, format and way to compute prompts, at the batch that suits it best; empty: nothing reaches the
    SLO.
    """
    why: str
    left_out: tuple[LeftOut, ...]
    """Why there is none; empty: there is one."""
    formulas: tuple[str, ...]
    assumptions: tuple[str, ...]
    uncertain: tuple[str, ...]
    """Of all systems compared: also those that are not in the answer had to be beaten."""


@dataclass(frozen=True, slots=True)
class _Figure:
    """What configurations are ordered by, less is better; what is said of the second where it is worse in it."""

    of: Callable[[Configuration], float]
    worse: Callable[[Configuration, Configuration], str]
    same: str = ""


_MONEY = _Figure(
    lambda c: c.usd_per_mtok or math.inf,
    lambda a, b: f"costs {(b.usd_per_mtok or 0) / (a.usd_per_mtok or 1) - 1:.1%} more a token",
    "costs as much a token, but ",
)
_YIELD = _Figure(
    lambda c: -c.throughput_tokens_per_s_per_chip,
    lambda a, b: (
        f"makes {1 - b.throughput_tokens_per_s_per_chip / a.throughput_tokens_per_s_per_chip:.1%} fewer tokens a chip"
    ),
    "makes as many tokens a chip, but ",
)
_TIES = (
    _Figure(lambda c: c.chips, lambda a, b: f"comes in {b.chips} chips and not {a.chips}"),
    _Figure(
        lambda c: -c.interactivity_tokens_per_s,
        lambda a, b: (
            f"gives each user {b.interactivity_tokens_per_s:.4g} tokens/s and not {a.interactivity_tokens_per_s:.4g}"
        ),
    ),
    _Figure(
        lambda c: c.ttft_s or 0.0,
        lambda a, b: f"takes {b.ttft_s or 0:.3g} s to a first token and not {a.ttft_s or 0:.3g}",
    ),
    _Figure(
        lambda c: c.parallelism.pipeline + c.parallelism.data + c.parallelism.context,
        lambda _, b: (
            f"is cut into {b.parallelism.pipeline} stages and {b.parallelism.data} groups, each cache into "
            f"{b.parallelism.context}"
        ),
    ),
)


def best_report(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    load: Lengths | int,
    slo_tokens_per_s: float,
    fitted: Mapping[str, Calibration] | None = None,
    max_chips: int = MAX_CHIPS,
    count: int = 5,
    slo_ttft_s: float | None = None,
) -> BestReport:
    slo = rate_that_counts(slo_tokens_per_s, load)
    fits = common_fits(systems, fitted or {})
    tried = sweeps(name, model, systems, precisions, load, fits, max_chips, slo_ttft_s)
    reached = [s.configuration(j) for s in tried if (j := s.best_at(slo or 0.0, slo_ttft_s)) is not None]
    by_money = all(system.chip.rent_usd_per_hour is not None for system in systems)
    order = (_MONEY if by_money else _YIELD, *_TIES)
    ranked = tuple(sorted(reached, key=lambda c: tuple(_rounded(figure.of(c)) for figure in order)))
    most = max((float(sweep.interactivity.max()) for sweep in tried), default=None)
    dropped: tuple[LeftOut, ...] = ()
    if not ranked:
        every = chain.from_iterable(deployments(name, model, systems, precisions, load, fits, max_chips))
        dropped = left_out(tried, every, asked_tokens(load)[0], slo, slo_ttft_s)
    return BestReport(
        name,
        *asked_tokens(load),
        slo,
        slo_ttft_s,
        "calibrated" if fits else "floor",
        "usd_per_mtok" if by_money else "throughput_tokens_per_s_per_chip",
        sum(len(s.batches) for s in tried),
        ranked[:count],
        _why(ranked, slo, slo_ttft_s, most, order),
        dropped,
        formulas(load, bool(fits)),
        (*assumptions(load, fits), ORDER),
        uncertain_of_several(systems, *RENT),
    )


def _rounded(figure: float) -> float:
    """Nothing here is known to more than three digits."""
    return float(f"{figure:.3g}")


def _why(
    best: Sequence[Configuration],
    slo_tokens_per_s: float | None,
    slo_ttft_s: float | None,
    most: float | None,
    order: Sequence[_Figure],
) -> str:
    """`most`: tokens/s a user of the fastest configuration. None: the model fits nowhere."""
    rate = [] if slo_tokens_per_s is None else [f"{slo_tokens_per_s:g} tokens/s"]
    slo = " and ".join(rate if slo_ttft_s is None else [*rate, f"a first token within {slo_ttft_s:g} s"])
    if most is None:
        return "the model fits no replica that these systems can form: more chips, more memory or narrower formats"
    if not best:
        most_said = f"; the fastest gives {most:.4g} tokens/s" if rate else ""
        return f"no configuration gives every user {slo}{most_said}: ask for less, or shorten the context"
    first, *rest = best
    if not rest:
        return "no other cut reaches the SLO"
    second = rest[0]
    decided = next((f for f in order if _rounded(f.of(first)) != _rounded(f.of(second))), None)
    if decided is None:
        return f"the second is as good in every figure: {_described(second)}, the first {_described(first)}"
    tie = "" if decided is order[0] else order[0].same
    held = f"with {slo} for every user " if slo else ""
    return (
        f"the second {tie}{decided.worse(first, second)}: {held}it is {_described(second)}; "
        f"the first is {_described(first)}"
    )


def _described(c: Configuration) -> str:
    kinds = {"decode": "", "mixed": ", prompts mixed in", "split": f", {_replicas(c.prefill_replicas)} for prompts"}
    return (
        f"{c.chips} x {c.chip} with {c.batch * c.replicas / c.chips:.4g} sequences a chip{kinds[c.kind]} "
        f"({c.bound.replace('_', ' ')} bound)"
    )


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
