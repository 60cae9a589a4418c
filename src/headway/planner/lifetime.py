"""Training tokens against the tokens that a model serves in its life."""

from __future__ import annotations

from dataclasses import dataclass

from headway.arithmetic.parameters import parameters
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.planner.fleet import CHINCHILLA_TOKENS_PER_PARAM, lifetime_tokens, served_over_optimal_training

FORMULAS = (
    "training FLOPs = 6 x active x training tokens",
    "serving FLOPs = 2 x active x (prompt and output tokens)",
    "served over optimal = output tokens served / (20 x active): against compute-optimal training",
    "training tokens at which both take equal chip-time = served x 2 / 6 x mfu of training / mfu of serving",
)
ASSUMPTIONS = (
    "attention over the context is left out of both; reinforcement learning's rollouts count as served",
    "a model is served at one rate from its first to its last day",
    f"compute-optimal training: {CHINCHILLA_TOKENS_PER_PARAM} tokens an active parameter (Hoffmann and others, 2022)",
)


@dataclass(frozen=True, slots=True)
class LifetimeReport:
    model: str
    active_params: int
    total_params: int
    training_tokens: float
    served_output_tokens: float
    served_tokens: float
    """Prompts that are computed and outputs."""
    served_over_training: float
    served_over_optimal_training: float
    training_flops: float
    serving_flops: float
    serving_over_training_chip_time: float
    balanced_training_tokens: float
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def lifetime_report(
    name: str,
    model: ModelShape,
    training_tokens: float,
    output_tokens_per_s: float,
    days: float,
    new_input_over_output: float,
    training_mfu: float,
    serving_mfu: float,
) -> LifetimeReport:
    """Raises ShapeError for a utilisation outside 0 .. 1."""
    for what, mfu in (("training", training_mfu), ("serving", serving_mfu)):
        if not 0 < mfu <= 1:
            raise ShapeError(f"{what} mfu must be above 0 and at most 1, not {mfu}")
    counted = parameters(model)
    outputs = lifetime_tokens(output_tokens_per_s, days)
    served = outputs * (1 + new_input_over_output)
    training, serving = 6 * counted.active * training_tokens, 2 * counted.active * served
    return LifetimeReport(
        name,
        counted.active,
        counted.total,
        training_tokens,
        outputs,
        served,
        served / training_tokens,
        served_over_optimal_training(outputs, counted.active),
        training,
        serving,
        serving / serving_mfu / (training / training_mfu),
        served * 2 / 6 * training_mfu / serving_mfu,
    )
