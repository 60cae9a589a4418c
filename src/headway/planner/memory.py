"""What fills a chip's memory: weights by part, cache, what is kept free; and how many sequences fit."""

from __future__ import annotations

from dataclasses import dataclass

from headway.arithmetic.parallelism import weight_bytes_by_part
from headway.planner.deployment import Deployment
from headway.planner.fitting import USABLE
from headway.planner.uncertain import uncertain_figures

FORMULAS = (
    "weights a chip = sum over matrices of bytes / chips that share it, on the fullest stage",
    "KV a chip = ceil(batch / data) x KV of the context / chips that share the cached heads",
)
ASSUMPTIONS = (
    f"{USABLE:.0%} of the memory is for weights and cache, the rest for activations, the runtime and fragments",
    "every sequence is as long as the context; no prefix is shared",
)


@dataclass(frozen=True, slots=True)
class MemoryReport:
    model: str
    system: str
    chip: str
    chips: int
    weight_format: str
    kv_format: str
    context_tokens: int
    batch: int
    weight_bytes_by_part: dict[str, float]
    weight_bytes: float
    """Of the fullest chip, as all that follows."""
    kv_bytes: float
    kept_free_bytes: float
    unused_bytes: float
    """Negative: it does not fit."""
    memory_bytes: float
    fits: bool
    max_batch: int
    would_fit: str
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def memory_report(where: Deployment, context: int, batch: int) -> MemoryReport:
    plan, chip = where.memory(context, batch), where.system.chip
    return MemoryReport(
        model=where.name,
        system=where.system.name,
        chip=chip.name,
        chips=where.cut.chips,
        weight_format=where.precision.named,
        kv_format=where.precision.kv.name,
        context_tokens=context,
        batch=batch,
        weight_bytes_by_part=weight_bytes_by_part(where.model, where.precision, where.cut),
        weight_bytes=plan.weights_bytes,
        kv_bytes=plan.kv_bytes,
        kept_free_bytes=chip.hbm_bytes - plan.usable_bytes,
        unused_bytes=plan.usable_bytes - plan.weights_bytes - plan.kv_bytes,
        memory_bytes=chip.hbm_bytes,
        fits=plan.fits,
        max_batch=plan.max_batch,
        would_fit="it fits" if plan.fits else where.would_fit(context, batch),
        uncertain=uncertain_figures(where.system),
        assumptions=(*ASSUMPTIONS, where.precision.kept),
    )
