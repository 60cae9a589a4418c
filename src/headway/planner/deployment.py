"""A model on a system, cut and stored in some way: what most questions are about, and the times that they ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.arithmetic.attends import spans
from headway.arithmetic.experts import FloatArray
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.arithmetic.step_shape import IntLike, StepShape, decode, prefill
from headway.arithmetic.work import StepWork, step_work
from headway.catalog import CatalogError, System
from headway.planner.fitting import USABLE, Fitting
from headway.planner.prompts import PromptCost, fitted_prompt, floor_prompt
from headway.roofline import Calibration, MemoryPlan, StepCost, calibrated_cost, floor_cost, memory_plan

FLOOR = "floor: compute, memory and network each at the chip's peak, the longest of them counts"
CALIBRATED = "steps as a real engine takes them, by a fit to measurements of this chip and engine"


@dataclass(frozen=True, slots=True)
class Deployment:
    """One replica. `fitted`: steps take what a fit says, else their floor."""

    name: str
    model: ModelShape
    system: System
    precision: Precision
    cut: Parallelism
    fitted: Calibration | None = None
    mfu: float | None = None
    """Share of its floor's speed that a prompt reaches. None: what the fit says, without one all of it."""

    def __post_init__(self) -> None:
        if self.mfu is not None and not 0 < self.mfu <= 1:
            raise ShapeError(f"mfu must be above 0 and at most 1, not {self.mfu}")

    @property
    def cost_model(self) -> str:
        return "calibrated" if self.fitted else "floor"

    @property
    def assumed_of_decode(self) -> str:
        return f"decode {CALIBRATED}" if self.fitted else FLOOR

    def assumed(self, of_many: bool = False) -> tuple[str, ...]:
        """`of_many`: prompts cost what each of many takes of the chips, not the time of one."""
        if self.fitted is None or self.mfu is not None:
            by = f"a prompt is computed by itself, at {self.mfu or 1:.0%} of its floor's speed"
        elif of_many:
            by = "a prompt rides in steps that are launched for others too, as the fit has it"
        else:
            by = "a prompt is computed by itself, as the fit has it"
        return self.assumed_of_decode, by

    @property
    def link_bytes_per_s(self) -> float:
        """Between replicas, from one chip. Raises CatalogError where the system has no such link."""
        link = self.system.scaleout or self.system.host
        if link is None:
            raise CatalogError(f"{self.system.name} has no scale-out link in the catalog: give scaleout_bytes_per_s")
        return link.bytes_per_s

    def work(self, shape: StepShape) -> StepWork:
        return step_work(self.model, shape, self.precision, self.cut, domain=self.system.scaleup_chips)

    def floor(self, shape: StepShape) -> StepCost:
        return floor_cost(self.work(shape), self.system, self.cut.chips)

    def cost(self, shape: StepShape) -> StepCost:
        """By the fit if there is one, else the floor."""
        return self.engine(shape) or self.floor(shape)

    def engine(self, shape: StepShape) -> StepCost | None:
        """None: no fit is given."""
        if self.fitted is None:
            return None
        return calibrated_cost(self.work(shape), shape, self.system, self.fitted.coefficients, self.cut)

    def decode_shape(self, batch: IntLike, context: IntLike, drafts: int = 0, shared: int = 0) -> StepShape:
        """What one pass carries: with pipeline stages the batch is dealt out over them, a part to each pass. `shared`:
        tokens at the start that all have in common, read once by each group; not with drafts.
        """
        whole = np.asarray(batch, np.int64)
        part = -(-whole // np.minimum(self.cut.pipeline, whole))
        if not drafts:
            return decode(spans(self.model), part, context, shared, self.cut.data)
        known = np.asarray(context, np.int64) - 1
        one = prefill(spans(self.model), drafts + 1, known)
        return StepShape(one.spans, one.tokens, one.sequences, one.tokens, one.pairs, one.reads, one.writes).times(part)

    def decode_s(self, batch: IntLike, context: IntLike, drafts: int = 0) -> FloatArray:
        """Time between two tokens of a sequence: one pass through all stages."""
        return self.cost(self.decode_shape(batch, context, drafts)).step_s

    def tokens_per_s(self, batch: IntLike, context: IntLike) -> FloatArray:
        return np.asarray(np.asarray(batch, np.float64) / self.decode_s(batch, context))

    def prompts_shape(self, tokens: int) -> StepShape:
        """A prompt for each group of sequences: what all chips of a stage are at work on."""
        return prefill(spans(self.model), tokens, 0, self.cut.data)

    def prompts_tokens_per_s(self, tokens: int) -> float:
        """Of prompts so long, by the floor, where every group and every stage has one."""
        return self.cut.pipeline * self.cut.data * tokens / float(self.floor(self.prompts_shape(tokens)).step_s)

    def prompt(self, tokens: int, cached: int = 0) -> PromptCost:
        """Of `tokens` new ones behind `cached` others."""
        shape = prefill(spans(self.model), tokens, cached, np.array([1, self.cut.data], np.int64))
        work = self.work(shape)
        if self.fitted is not None and self.mfu is None:
            return fitted_prompt(work, shape, self.system, self.cut, self.fitted)
        return floor_prompt(work, self.system, self.cut, self.mfu or 1.0)

    def prefill_s(self, tokens: int, cached: int = 0) -> float:
        """One prompt by itself, from its start to its first token."""
        return self.prompt(tokens, cached).alone_s

    def decode_chip_s(self, prompt: int, output: int, batch: int) -> float:
        """Chip-seconds of one request's decode steps, which it shares with a batch of its like."""
        return float(self.decode_steps_s(prompt, output, batch).sum()) / batch * self.cut.chips

    def decode_steps_s(self, prompt: int, output: int, batch: int) -> FloatArray:
        """Of each token after the first, which the prompt's step draws."""
        return np.asarray(self.decode_s(batch, prompt + np.arange(1, output, dtype=np.int64)))

    def prefill_chip_s(self, prompt: int, cached: int = 0) -> float:
        """Chip-seconds of one prompt of many."""
        return self.prompt(prompt - cached, cached).each_s * self.cut.chips

    def memory(self, context: int, batch: int, shared: int = 0) -> MemoryPlan:
        return memory_plan(self.model, self.system.chip, context, batch, self.precision, self.cut, USABLE, shared)

    def check_fits(self, context: int, batch: int) -> None:
        """Raises ShapeError that says what would fit; CatalogError where a rate or link is unknown: no size helps."""
        self.floor(self.decode_shape(1, 1))
        plan = self.memory(context, batch)
        if plan.fits:
            return
        need, have = (plan.weights_bytes + plan.kv_bytes) / 1e9, plan.usable_bytes / 1e9
        raise ShapeError(
            f"{self.name} with {batch} x {context:,} tokens needs {need:.4g} GB a chip, and {have:.4g} GB of each "
            f"{self.system.chip.name} are usable: {self.would_fit(context, batch)}"
        )

    def would_fit(self, context: int, batch: int, shared: int = 0) -> str:
        return ", ".join(Fitting(self.model, self.system, self.precision, self.cut, context, batch, shared).ways())
