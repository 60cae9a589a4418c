"""What would fit where something does not: fewer sequences, more chips, narrower formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.catalog import CatalogError, System
from headway.roofline import MemoryPlan, memory_plan
from headway.roofline.floor import rate_flops_per_s

USABLE = 0.9
MAX_TENSOR = 256
MAX_PIPELINE = 64
_NARROWER = ("fp8", "mxfp4")


@dataclass(frozen=True, slots=True)
class Fitting:
    """`batch` sequences of `context` tokens on chips of a system."""

    model: ModelShape
    system: System
    precision: Precision
    cut: Parallelism
    context: int
    batch: int
    shared: int = 0
    """Tokens at the start that all have in common."""

    def plan(self) -> MemoryPlan:
        """Raises ShapeError for a cut that the model cannot have."""
        size, held = (self.context, self.batch), (self.precision, self.cut)
        return memory_plan(self.model, self.system.chip, *size, *held, USABLE, self.shared)

    def ways(self) -> Iterator[str]:
        """Options that make it fit, as they are written on the command line; then what else may help."""
        if most := self.plan().max_batch:
            yield f"batch {most} fits"
        wider = self._wider()
        if wider is not None:
            yield f"--tensor {wider.cut.tensor} fits"
        else:
            yield from self._beyond_one_domain()
        yield "try narrower --weights or --kv, a shorter context, or a --system with more memory"

    def _beyond_one_domain(self) -> Iterator[str]:
        cuts = list(self._tensors())
        widest = cuts[-1] if cuts else self
        if widest is not self and (most := widest.plan().max_batch):
            yield f"--tensor {widest.cut.tensor} with batch {most} fits"
        stages = widest._deeper() if self.system.scaleout else None
        if stages is not None:
            yield f"{_written(stages.cut)} fits"
        for each in self._narrower():
            found = each if each.plan().fits else each._wider()
            if found is not None:
                tensor = f" --tensor {found.cut.tensor}" if found.cut.tensor > 1 else ""
                yield f"--weights {each.precision.weights.name}{tensor} fits"
                return

    def _wider(self) -> Fitting | None:
        """By the least tensor parallelism within the scale-up domain."""
        return next((each for each in self._tensors() if each.plan().fits), None)

    def _tensors(self) -> Iterator[Fitting]:
        chips = self.system.scaleup_chips if self.system.scaleup else 1
        for tensor in range(self.cut.tensor + 1, min(chips * self.cut.tensor // self.cut.chips, MAX_TENSOR) + 1):
            try:
                wide = replace(self, cut=replace(self.cut, tensor=tensor))
                wide.plan()
            except ShapeError:
                continue
            yield wide

    def _deeper(self) -> Fitting | None:
        for pipeline in range(self.cut.pipeline + 1, min(len(self.model.layers), MAX_PIPELINE) + 1):
            deep = replace(self, cut=replace(self.cut, pipeline=pipeline))
            if deep.plan().fits:
                return deep
        return None

    def _narrower(self) -> Iterator[Fitting]:
        """Formats that this chip multiplies."""
        p = self.precision
        for name in _NARROWER:
            experts = None if p.experts in (None, p.weights) else p.experts
            narrow = precision(name, p.kv.name, experts.name if experts else None)
            try:
                rate_flops_per_s(self.system.chip, narrow.rate)
            except CatalogError:
                continue
            if narrow.weights.bits_per_value < p.weights.bits_per_value:
                yield replace(self, precision=narrow)


def _written(cut: Parallelism) -> str:
    return (f"--tensor {cut.tensor} " if cut.tensor > 1 else "") + f"--pipeline {cut.pipeline}"
