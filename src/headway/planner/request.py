"""The receipt of one request: seconds, joules and dollars of its prompt and of each token that it gets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headway.planner.deployment import Deployment
from headway.planner.price import Workload
from headway.planner.prompts import PromptCost
from headway.planner.receipt import energy_receipt
from headway.planner.uncertain import rent_of, uncertain_figures

ASSUMPTIONS = (
    "the prompt is computed in a step of its own, then `batch` sequences as long as this one decode together",
    "a decode step's time, energy and money are shared evenly by its batch",
    "energy: every chip at its full power throughout; wall: times the overhead for cooling, conversion and hosts",
    "every group of sequences and pipeline stage has a prompt like it, or its part of the batch, at the same time",
    "no queue, no network to the user, no idle chips: `headway plan price` counts those",
)
FORMULAS = (
    "chip-seconds = (prompt's step / groups and stages + decode steps / batch) x chips",
    "energy in the chips = chip-seconds x power; at the wall: x overhead",
    "rent = chip-seconds x USD a chip-hour / 3600",
    "electricity = Wh at the wall / 1000 x USD a kWh",
)


@dataclass(frozen=True, slots=True)
class RequestCost:
    """None: the chip publishes no power, or no rent is known."""

    prefill_s: float
    decode_s: float
    tpot_s: float
    prefill_j: float | None
    decode_j: float | None
    energy_j: float | None
    """In the chips, of prompt and decode."""
    chip_wh: float | None
    wall_wh: float | None
    j_per_output_token: float | None
    usd: float | None
    electricity_usd: float | None
    """Of what is drawn at the wall; a part of what the rent pays for."""


@dataclass(frozen=True, slots=True)
class RequestReceipt:
    model: str
    system: str
    chip: str
    chips: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    batch: int
    overhead: float
    power_w_per_chip: float | None
    usd_per_chip_hour: float | None
    floor: RequestCost
    calibrated: RequestCost | None
    median_error: float | None
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def request_receipt(
    where: Deployment,
    work: Workload,
    overhead: float = 1.2 * 1.3,
    usd_per_kwh: float = 0.08,
    usd_per_chip_hour: float | None = None,
) -> RequestReceipt:
    """`usd_per_chip_hour` None: the chip's rent, if it is known. Raises ShapeError for what does not fit."""
    where.check_fits(work.prompt + work.output, work.batch)
    # The prompt's step draws the first token; each later one is a step of its own.
    shape = where.decode_shape(work.batch, work.prompt + np.arange(1, work.output))
    floor_s, engine = float(where.floor(shape).step_s.sum()), where.engine(shape)
    hourly = usd_per_chip_hour if usd_per_chip_hour is not None else where.system.chip.rent_usd_per_hour
    at_floor = replace(where, fitted=None, mfu=None).prompt(work.new, work.cached)
    calibrated = None
    if engine is not None:
        prompt = where.prompt(work.new, work.cached)
        calibrated = _cost(where, work, prompt, float(engine.step_s.sum()), overhead, usd_per_kwh, hourly)
    return RequestReceipt(
        where.name,
        where.system.name,
        where.system.chip.name,
        where.cut.chips,
        work.prompt,
        work.cached,
        work.output,
        work.batch,
        overhead,
        where.system.chip.tdp_w,
        hourly,
        _cost(where, work, at_floor, floor_s, overhead, usd_per_kwh, hourly),
        calibrated,
        where.fitted.median_error if where.fitted else None,
        uncertain_figures(where.system, *rent_of(where.system.chip, hourly)),
    )


def _cost(
    where: Deployment,
    work: Workload,
    prompt: PromptCost,
    decode_s: float,
    overhead: float,
    usd_per_kwh: float,
    hourly: float | None,
) -> RequestCost:
    power_w = where.system.chip.tdp_w
    prefill_chip_s, decode_chip_s = (s * where.cut.chips for s in (prompt.together_s, decode_s / work.batch))
    energy = None
    if power_w is not None:
        energy = energy_receipt(prefill_chip_s * power_w, decode_chip_s * power_w, overhead)
    return RequestCost(
        prefill_s=prompt.alone_s,
        decode_s=decode_s,
        tpot_s=decode_s / (work.output - 1) if work.output > 1 else 0.0,
        prefill_j=energy.prefill_j if energy else None,
        decode_j=energy.decode_j if energy else None,
        energy_j=energy.chip_j if energy else None,
        chip_wh=energy.chip_j / 3600 if energy else None,
        wall_wh=energy.wall_wh if energy else None,
        j_per_output_token=energy.chip_j / work.output if energy else None,
        electricity_usd=energy.wall_wh / 1e3 * usd_per_kwh if energy else None,
        usd=None if hourly is None else (prefill_chip_s + decode_chip_s) * hourly / 3600,
    )
