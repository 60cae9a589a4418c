"""Joules of a decode step and of a prompt: by power and time, and by what is read and multiplied."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headway.arithmetic.step_shape import StepShape
from headway.catalog import Figure
from headway.planner.deployment import FLOOR, Deployment
from headway.planner.uncertain import uncertain_figures
from headway.roofline import rate_flops_per_s
from headway.roofline.energy import WorkEnergy, flops_per_byte_read, memory_level

FORMULAS = (
    "at full power = tokens / (tokens/s) x chips x power",
    "reading = bytes of weights and KV x joules a byte of the level; multiplying = FLOPs x joules a FLOP",
    "FLOPs a byte read = joules to read a byte / joules of a FLOP",
    "both joules are scaled down alike where at its peaks a chip would draw more than its power",
)
ASSUMPTIONS = (
    FLOOR,
    "every group of sequences has a prompt like it, and every pipeline stage a pass to work on",
    "every chip draws its full power throughout; idle power and what the chip does besides are the difference",
    "the joules a byte and a FLOP are estimates for older silicon: their ratio says more than their size",
)


@dataclass(frozen=True, slots=True)
class StepEnergy:
    """Of `tokens`: one from each sequence of the batch, or those of one prompt."""

    step: str
    tokens: int
    step_s: float
    energy_j: float | None
    """At full power; None: the chip publishes none."""
    reading_j: float | None
    """None, as its share: there is no figure for the chip's memory."""
    multiplying_j: float
    reading_share: float | None
    """Of reading and multiplying."""
    energy_j_per_token: float | None


@dataclass(frozen=True, slots=True)
class EnergyReport:
    model: str
    system: str
    chips: int
    batch: int
    context_tokens: int
    memory: str
    power_w_per_chip: float | None
    flops_per_byte_read: float | None
    steps: tuple[StepEnergy, ...]
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def energy_report(
    where: Deployment, energy: Mapping[str, Figure], batch: int, context: int, multiply: str = "fp16_multiply_add"
) -> EnergyReport:
    """`energy`: the catalog's, by level. The chip's main memory is taken for HBM2 if it is some HBM, for DRAM if it is
    some; of main memory in SRAM there is no figure, only of a small one.
    """
    level = memory_level(where.system.chip)
    together = where.decode_shape(batch, context)
    passes = (
        ("decode", batch, together, batch / float(where.floor(together).step_s)),
        ("prefill", context, where.prompts_shape(context), where.prompts_tokens_per_s(context)),
    )
    spent = _work_energy(where, together, None if level is None else energy[level].value, energy[multiply].value)
    figures = {name: energy[name] for name in (level, multiply) if name is not None}
    said = tuple(f"{name} {figure.written}: {figure.status}, {figure.note}" for name, figure in figures.items())
    if level is None:
        said += (f"joules to read a byte of {where.system.chip.name}'s main memory, SRAM: none are published",)
    return EnergyReport(
        where.name,
        where.system.name,
        where.cut.chips,
        batch,
        context,
        level or "sram",
        where.system.chip.tdp_w,
        None if level is None else flops_per_byte_read(energy, level, multiply),
        tuple(_step(where, *each, spent) for each in passes),
        uncertain_figures(where.system) + said,
    )


def _work_energy(where: Deployment, shape: StepShape, byte_j: float | None, flop_j: float) -> WorkEnergy:
    """Within the chip's power, if it publishes one. `byte_j` None: counts as nothing."""
    each, chip = WorkEnergy(flop_j, byte_j or 0.0, False), where.system.chip
    fastest = max(rate_flops_per_s(chip, rate) for rate in where.work(shape).rates)
    return each if chip.tdp_w is None else each.within(chip.tdp_w, fastest, chip.hbm_bytes_per_s)


def _step(
    where: Deployment, name: str, tokens: int, shape: StepShape, tokens_per_s: float, spent: WorkEnergy
) -> StepEnergy:
    """`shape`: of one pass through all stages. `tokens_per_s`: of all passes that are under way."""
    cost, power_w, chips = where.floor(shape), where.system.chip.tdp_w, where.cut.stage_chips
    read_bytes, flops = _of_a_chip(where, shape, tokens)
    reading = read_bytes * spent.byte_j * chips if spent.byte_j else None
    multiplying = flops * spent.flop_j * chips
    full = None if power_w is None else tokens / tokens_per_s * where.cut.chips * power_w
    share = None if reading is None else reading / (reading + multiplying)
    per_token = None if full is None else full / tokens
    return StepEnergy(name, tokens, float(cost.step_s), full, reading, multiplying, share, per_token)


def _of_a_chip(where: Deployment, shape: StepShape, tokens: int) -> tuple[float, float]:
    """Bytes and FLOPs for `tokens`, the mean over a stage's chips. Work is counted for the fullest group of sequences,
    of experts for all groups together.
    """
    work, groups, passes = where.work(shape), where.cut.data, tokens / int(shape.tokens)
    mean = 1 / (groups * float(shape.busiest_share(groups)))

    def each(field: str, of_others: float, of_experts: float) -> float:
        experts = float(work.total(field, "experts"))
        return (float(work.total(field)) - experts) * of_others + experts * of_experts

    # A pass that carries fewer sequences reads the weights all the same, in every group that has one.
    sequences = int(shape.sequences)
    full, rest = divmod(tokens * sequences // int(shape.tokens), sequences)
    busy = (full * min(sequences, groups) + min(rest, groups)) / groups
    weights = each("weight_bytes", busy, passes if passes < 1 else math.ceil(passes))
    moved = each("memory_bytes", mean * passes, passes) - each("weight_bytes", mean * passes, passes)
    return weights + moved, each("flops", mean * passes, passes)
