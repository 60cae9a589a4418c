"""The roofline of a decode step and of a prefill step: every operation, the floor of the whole, what bounds it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.arithmetic.attends import spans
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape, prefill
from headway.planner.bounds import BoundShare, bounds
from headway.planner.deployment import Deployment
from headway.planner.uncertain import uncertain_figures
from headway.roofline import (
    Calibration,
    MemoryPlan,
    OpPoint,
    floor_cost,
    op_points,
    rate_flops_per_s,
)

FORMULAS = (
    "step (floor) = max(FLOPs / peak, bytes / bandwidth, bytes sent / link)",
    "ridge = peak / bandwidth; below it an operation is bound by memory, above it by compute",
    "operation's time = max(FLOPs / peak, bytes / bandwidth)",
    "energy at full power = tokens / (tokens/s) x chips x power; tokens/s a user = 1 / decode step",
)
ASSUMPTIONS = (
    "floor: every chip at its peak, compute, memory and network fully overlapped, no launches, no link latency",
    "experts touched are the expected union over the batch, all equally liked",
    "each operation's point counts its activations' traffic; the whole step's floor does not",
    "a rate that the chip lacks, or that is slower than a wider one, runs at the wider one",
    "with pipeline stages: the batch is split evenly over them and each stage always has one part",
    "tokens/s and energy of a prompt: every group of sequences and every stage has one like it at the same time",
    "memory: 90% of the chip for weights and cache",
)


@dataclass(frozen=True, slots=True)
class CalibratedStep:
    step_s: float
    median_error: float
    """Of the fit, on the data that it saw."""
    points: int
    source: str
    held_out_median_error: float | None
    """On models that the fit did not see; where the chip was not measured, on chips that it did not see."""
    low_s: float | None
    high_s: float | None
    """Nine in ten measurements of what the fit did not see lie as near as this."""
    measured_chip: bool
    """False: predicted from the chip's datasheet."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """Of one pass through all stages, which carries a stage's part of the batch."""

    kind: str
    tokens: int
    """Of the whole batch, or of the prompt; as joules and tokens/s."""
    step_s: float
    compute_s: float
    memory_s: float
    network_s: float
    bound: str
    flops_per_chip: float
    memory_bytes_per_chip: float
    intensity_flops_per_byte: float
    arithmetic_utilisation: float
    bandwidth_utilisation: float
    energy_at_tdp_j: float | None
    tokens_per_s: float
    tokens_per_s_per_chip: float
    calibrated: CalibratedStep | None
    """What a real engine takes, where a fit for this chip exists; its errors are those of decode steps."""
    ops: tuple[OpPoint, ...]


@dataclass(frozen=True, slots=True)
class RooflineReport:
    model: str
    system: str
    chip: str
    chips: int
    parallelism: Parallelism
    weight_format: str
    kv_format: str
    context_tokens: int
    batch: int
    ridge_flops_per_byte: float
    rate_flops_per_s: float
    memory: MemoryPlan
    fits: bool
    decode: StepReport
    interactivity_tokens_per_s: float
    prefill: StepReport
    """Of one prompt as long as the context."""
    bounds: tuple[BoundShare, ...]
    """Of the decode step, by the fit if there is one."""
    uncertain: tuple[str, ...]
    """Figures of the chip and its links that are announced or rumoured."""
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def roofline_report(where: Deployment, context: int, batch: int) -> RooflineReport:
    """Raises ShapeError if the model cannot be cut so, CatalogError if the chip lacks a figure that is needed."""
    system, precision, cut = where.system, where.precision, where.cut
    cut.check(where.model)
    rate = rate_flops_per_s(system.chip, precision.rate)
    memory = where.memory(context, batch)
    together, whole = where.decode_shape(batch, context), prefill(spans(where.model), context)
    engine = where.engine(together)
    real_s = None if engine is None else float(engine.step_s)
    step = step_report("decode", where, together, batch, batch / float(where.floor(together).step_s), real_s)
    shares = bounds(where, batch, context)
    return RooflineReport(
        model=where.name,
        system=system.name,
        chip=system.chip.name,
        chips=cut.chips,
        parallelism=cut,
        weight_format=precision.named,
        kv_format=precision.kv.name,
        context_tokens=context,
        batch=batch,
        ridge_flops_per_byte=rate / system.chip.hbm_bytes_per_s,
        rate_flops_per_s=rate,
        memory=memory,
        fits=memory.fits,
        decode=step if memory.fits else replace(step, bound="memory_capacity"),
        interactivity_tokens_per_s=1 / step.step_s,
        prefill=step_report(
            "prefill",
            where,
            whole,
            context,
            where.prompts_tokens_per_s(context),
            where.prefill_s(context) if where.fitted else None,
        ),
        bounds=shares,
        uncertain=uncertain_figures(system),
    )


def calibrated_step(step_s: float, fitted: Calibration) -> CalibratedStep:
    ratio = fitted.interval_ratio
    return CalibratedStep(
        step_s,
        fitted.median_error,
        fitted.points,
        fitted.source,
        fitted.held_out_median_error,
        None if ratio is None else step_s / ratio,
        None if ratio is None else step_s * ratio,
        fitted.measured_chip,
    )


def step_report(
    kind: str, where: Deployment, shape: StepShape, tokens: int, tokens_per_s: float, real_s: float | None = None
) -> StepReport:
    """`tokens`: of the batch or the prompt; `tokens_per_s`: of all chips. `real_s`: by the fit."""
    system, cut, fitted = where.system, where.cut, where.fitted
    work = where.work(shape)
    cost = floor_cost(work, system, cut.chips)
    calibrated = None if fitted is None or real_s is None else calibrated_step(real_s, fitted)
    tdp_w = system.chip.tdp_w
    return StepReport(
        kind=kind,
        tokens=tokens,
        step_s=float(cost.step_s),
        compute_s=float(cost.compute_s),
        memory_s=float(cost.memory_s),
        network_s=float(cost.network_s),
        bound=cost.bound[0],
        flops_per_chip=float(cost.flops),
        memory_bytes_per_chip=float(cost.memory_bytes),
        intensity_flops_per_byte=float(cost.intensity),
        arithmetic_utilisation=float(cost.arithmetic_utilisation),
        bandwidth_utilisation=float(cost.bandwidth_utilisation),
        energy_at_tdp_j=None if tdp_w is None else tokens / tokens_per_s * cut.chips * tdp_w,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_chip=tokens_per_s / cut.chips,
        calibrated=calibrated,
        ops=op_points(work, system.chip),
    )
