"""How far a model of step times is off from a log: of its steps, and of its requests when it times them all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from headway.scheduler.receipt import Receipt
from headway.simulator.executor import Timer, step_sums
from headway.simulator.logged_run import Logged, StepRows
from headway.simulator.results import quantiles


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative, modelled / logged - 1. None: there is nothing of the kind in the log."""

    number: int
    of_mean: float | None
    """With its sign."""
    median: float | None
    """Of |error|, as is `p90`."""
    p90: float | None


@dataclass(frozen=True, slots=True)
class ModelError:
    prompt_steps: Errors
    """Device and host time of steps with a prompt in them, each of the shape that was logged."""
    decode_steps: Errors
    ttft: Errors
    """Of requests, all steps of the run as long as modelled."""
    tpot: Errors


def model_error(logged: Logged, timer: Timer, replaced: Mapping[str, Receipt], ids: Collection[str]) -> ModelError:
    """`replaced`: receipts of `ids` in a run that is the logged one with step times of `timer`."""
    steps = [
        (rows.has_prompt, _step_ns(timer, rows), step.device_ns + step.host_ns)
        for rows, step in zip(logged.rows, logged.steps, strict=True)
    ]
    both = [(replaced[id], logged.receipts[id]) for id in ids]
    return ModelError(
        prompt_steps=errors((modelled, took) for prompt, modelled, took in steps if prompt),
        decode_steps=errors((modelled, took) for prompt, modelled, took in steps if not prompt),
        ttft=errors((modelled.ttft_ns, took.ttft_ns) for modelled, took in both),
        tpot=errors((modelled.tpot_ns, took.tpot_ns) for modelled, took in both),
    )


def _step_ns(timer: Timer, rows: StepRows) -> int:
    sums = step_sums(timer.spans, rows.starts, rows.counts)
    step = timer.one((int(rows.counts.sum()), len(rows.counts), rows.sampled, *sums))
    return step.device_ns + step.host_ns


def errors(pairs: Iterable[tuple[float, float]]) -> Errors:
    """Of (modelled, logged); what took no time in the log has no error."""
    known = np.array([pair for pair in pairs if pair[1] > 0], np.float64).reshape(-1, 2)
    if not len(known):
        return Errors(0, None, None, None)
    modelled, logged = known.T
    each = quantiles(np.abs(modelled / logged - 1).tolist())
    return Errors(len(known), float(modelled.sum() / logged.sum() - 1), each.p50, each.p90)
