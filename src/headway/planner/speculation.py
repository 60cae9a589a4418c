"""Speculative decoding: how many tokens to draft at a load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.arithmetic.shape import ShapeError
from headway.planner.deployment import Deployment
from headway.planner.uncertain import uncertain_figures

MAX_DEPTH = 16
FORMULAS = (
    "tokens a step = 1 + a + a^2 + .. + a^d = (1 - a^(d+1)) / (1 - a), a: chance that a draft is accepted",
    "step = time to verify d + 1 tokens a sequence + d x time of one drafted token",
    "speed-up = tokens a step x step without drafts / step with them",
)
ASSUMPTIONS = (
    "each draft is accepted with the same chance whatever came before; the first refusal ends the step's gain",
    "a draft token costs the share given of a plain decode step (0 for prompt lookup)",
    "a load that does not fit in memory: its times are what they would be if it did",
    "verified tokens of one sequence are routed to experts as unrelated tokens would be",
)


@dataclass(frozen=True, slots=True)
class Depth:
    drafts: int
    tokens_per_step: float
    step_s: float
    speed_up: float


@dataclass(frozen=True, slots=True)
class Load:
    batch: int
    best_drafts: int
    speed_up: float
    interactivity_tokens_per_s: float
    tokens_per_s_per_chip: float
    fits: bool
    depths: tuple[Depth, ...]


@dataclass(frozen=True, slots=True)
class SpeculationReport:
    model: str
    system: str
    chips: int
    cost_model: str
    context_tokens: int
    acceptance: float
    draft_share: float
    loads: tuple[Load, ...]
    uncertain: tuple[str, ...]
    assumptions: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS


def tokens_per_step(acceptance: float, drafts: int) -> float:
    return sum(acceptance**i for i in range(drafts + 1))


def speculation_report(
    where: Deployment, batches: Sequence[int], context: int, acceptance: float, draft_share: float, deepest: int
) -> SpeculationReport:
    """Raises ShapeError for a chance outside 0 .. 1."""
    if not 0 <= acceptance <= 1:
        raise ShapeError(f"acceptance must be between 0 and 1, not {acceptance}")
    where.check_fits(context, min(batches))
    loads = tuple(_load(where, batch, context, acceptance, draft_share, deepest) for batch in batches)
    return SpeculationReport(
        where.name,
        where.system.name,
        where.cut.chips,
        where.cost_model,
        context,
        acceptance,
        draft_share,
        loads,
        uncertain_figures(where.system),
        (*ASSUMPTIONS, where.assumed_of_decode),
    )


def _load(where: Deployment, batch: int, context: int, acceptance: float, draft_share: float, deepest: int) -> Load:
    plain = float(where.decode_s(batch, context))
    depths = []
    for drafts in range(deepest + 1):
        step_s = float(where.decode_s(batch, context, drafts)) + drafts * draft_share * plain
        gain = tokens_per_step(acceptance, drafts)
        depths.append(Depth(drafts, gain, step_s, gain * plain / step_s))
    best = max(depths, key=lambda depth: (depth.speed_up, -depth.drafts))
    speed = best.tokens_per_step / best.step_s
    rate, fits = speed * batch / where.cut.chips, where.memory(context, batch).fits
    return Load(batch, best.drafts, best.speed_up, speed, rate, fits, tuple(depths))
