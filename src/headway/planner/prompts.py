"""What computing prompts takes on one cut: one by itself, and each of many."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.work import StepWork
from headway.catalog import System
from headway.roofline import Calibration, calibrated_cost, floor_cost

_NOT_MEMORY = np.array([1.0, 0.0, 1.0, 1.0])


@dataclass(frozen=True, slots=True)
class PromptCost:
    """Of prompts that are alike."""

    alone_s: float
    """One prompt with nothing beside it, from its start to its first token."""
    each_s: float
    """What each takes of the replica where others come before and after: every group of sequences and every pipeline
    stage has one of its own.
    """
    together_s: float
    """The same without what rides in other steps: a step of prompts alone, one for each group, at once in every stage.
    """
    busy_s: FloatArray
    """[4] how long of `each_s` each of BOUNDS is busy, where the prompt rides in a step that reads the weights anyway.
    """


def floor_prompt(work: StepWork, system: System, cut: Parallelism, mfu: float) -> PromptCost:
    """`work`: [2] of one prompt, and of one for each group of sequences. `mfu`: share of the floor's speed reached."""
    cost = floor_cost(work, system, cut.chips)
    alone_s, several_s = cost.step_s.tolist()
    each = 1 / (mfu * cut.data * cut.pipeline)
    return PromptCost(alone_s / mfu, several_s * each, several_s * each, cost.busy_s[:, 1] * _NOT_MEMORY * each)


def fitted_prompt(
    work: StepWork, shape: StepShape, system: System, cut: Parallelism, fitted: Calibration
) -> PromptCost:
    """Kernels of a prompt's own step are launched one by one; prompts that ride with others find them launched."""
    c, serving = fitted.coefficients, fitted.serving
    own = replace(c, launch_s=c.launch_s + serving.prompt_launch_s, host_sequence_s=0.0)
    few = dict.fromkeys((f"layer_{n}_s" for n in c.few_layers_s), 0.0)
    riding = replace(c, launch_s=0.0, layer_s=0.0, expert_layer_s=0.0, host_s=0.0, host_sequence_s=0.0, **few)
    alone, several = (calibrated_cost(work, shape, system, each, cut) for each in (own, riding))
    each = serving.prompt_factor / (cut.data * cut.pipeline)
    return PromptCost(
        float(alone.step_s[0]) * serving.prompt_factor,
        float(several.step_s[1]) * each,
        float(alone.step_s[1]) * each,
        several.busy_s[:, 1] * each,
    )
