"""How long a step takes on a pipeline, and which timer a cut needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headway.arithmetic.parallelism import fullest_stage
from headway.simulator.dealt_time import DealtTime
from headway.simulator.step_time import Counts, Step, Steps, StepTime

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.parallelism import Parallelism
    from headway.arithmetic.shape import ModelShape
    from headway.arithmetic.spans import Span
    from headway.catalog import System
    from headway.roofline import Coefficients
    from headway.simulator.executor import Timer


def step_timer(
    model: ModelShape,
    precision: Precision,
    cut: Parallelism,
    system: System,
    max_step_tokens: int,
    coefficients: Coefficients | None = None,
    host_gap_s: float = 0.0,
) -> Timer:
    """The fastest one that is exact for this cut. Raises what `step_work` raises."""
    kind = StepTime if cut.data == cut.context == 1 else DealtTime
    passed = kind(model, precision, cut, system, max_step_tokens, coefficients, host_gap_s)
    if cut.pipeline == 1:
        return passed
    return StagedTime(passed, cut.pipeline, fullest_stage(model, cut) * cut.pipeline)


class StagedTime:
    """A step's rows are dealt out to as many micro-batches as there are stages, as rows alike, and go round without a
    break: a row's next token starts when its last one leaves. A step takes as long as one micro-batch takes to pass
    all stages, each as slow as the one with the most layers. With fewer rows than stages, stages stand idle.
    """

    def __init__(self, passed: Timer, stages: int, unevenness: float) -> None:
        """`passed`: one pass through all stages. `unevenness`: layers of the fullest stage over the mean."""
        self._passed = passed
        self._stages = stages
        self._unevenness = unevenness

    @property
    def spans(self) -> tuple[Span, ...]:
        return self._passed.spans

    def one(self, step: Counts) -> Step:
        passed = self._passed.one(micro_batch(self._stages, step))
        return passed._replace(device_ns=round(passed.device_ns * self._unevenness))

    def several(self, steps: int, step: Counts) -> Steps:
        passed = self._passed.several(steps, micro_batch(self._stages, step))
        return passed._replace(device_ns=np.rint(passed.device_ns * self._unevenness).astype(np.int64))


def micro_batch(number: int, step: Counts) -> Counts:
    """The fullest of so many that a step's rows are dealt out to, as rows alike; whole tokens and rows."""
    tokens, sequences, sampled, pairs, reads, writes = step
    rows = -(-sequences // number)
    mine = [[count * (rows / sequences) for count in by_span] for by_span in (pairs, reads, writes)]
    return -(-tokens * rows // sequences), rows, -(-sampled * rows // sequences), mine[0], mine[1], mine[2]
