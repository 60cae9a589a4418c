"""The receipt of one request: seconds, joules and dollars of its prompt and of each token that it gets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import Precision
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.step_shape import decode
from headway.catalog import System
from headway.planner.deployment import Deployment
from headway.planner.receipt import energy_receipt
from headway.planner.uncertain import uncertain_figures
from headway.roofline import Calibration

ASSUMPTIONS = (
    "the prompt is computed alone in one step, then every decode step carries `batch` sequences as long as this one",
    "a decode step's time, energy and money are shared evenly by its batch",
    "energy: every chip at its full power throughout; wall: times the overhead for cooling, conversion and hosts",
    "with pipeline stages, every stage always has another such step to work on",
    "no queue, no network to the user; the calibrated decode is a fit, the prompt's time is a floor in both",
)
FORMULAS = (
    "energy in the chips = (prompt's step + decode steps / batch) x chips x power; at the wall: x overhead",
    "rent = (prompt's step + decode steps / batch) x chips x USD a chip-hour / 3600",
    "electricity = Wh at the wall / 1000 x USD a kWh",
)
MAX_OUTPUT_TOKENS = 1_000_000


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
    name: str,
    model: ModelShape,
    system: System,
    precision: Precision,
    cut: Parallelism,
    prompt_tokens: int,
    cached_tokens: int,
    output_tokens: int,
    batch: int,
    overhead: float = 1.2 * 1.3,
    fitted: Calibration | None = None,
    usd_per_kwh: float = 0.08,
) -> RequestReceipt:
    """Raises ShapeError for a prompt that is cached entirely (its last token must be computed), for too many tokens,
    and for what does not fit.
    """
    if cached_tokens >= prompt_tokens:
        raise ShapeError(f"cached tokens ({cached_tokens}) must be fewer than the prompt's ({prompt_tokens})")
    if not 1 <= output_tokens <= MAX_OUTPUT_TOKENS:
        raise ShapeError(f"output tokens must be between 1 and {MAX_OUTPUT_TOKENS}, not {output_tokens}")
    where = Deployment(name, model, system, precision, cut, fitted)
    where.check_fits(prompt_tokens + output_tokens, batch)
    known, chips = spans(model), cut.chips
    prefill_s = where.prefill_s(prompt_tokens - cached_tokens, cached_tokens)
    # The prompt's step draws the first token; each later one is a step of its own.
    lengths = prompt_tokens + np.arange(1, output_tokens)
    shape = decode(known, batch, lengths)
    floor_s, engine = float(where.floor(shape).step_s.sum()), where.engine(shape)
    calibrated = None
    if engine is not None:
        real_s = float(engine.step_s.sum())
        calibrated = _cost(prefill_s, real_s, output_tokens, batch, cut, overhead, system, usd_per_kwh)
    return RequestReceipt(
        name,
        system.name,
        chips,
        prompt_tokens,
        cached_tokens,
        output_tokens,
        batch,
        overhead,
        system.chip.tdp_w,
        system.chip.rent_usd_per_hour,
        _cost(prefill_s, floor_s, output_tokens, batch, cut, overhead, system, usd_per_kwh),
        calibrated,
        fitted.median_error if fitted else None,
        uncertain_figures(system),
    )


def _cost(
    prefill_s: float,
    decode_s: float,
    output_tokens: int,
    batch: int,
    cut: Parallelism,
    overhead: float,
    system: System,
    usd_per_kwh: float,
) -> RequestCost:
    power_w, hourly = system.chip.tdp_w, system.chip.rent_usd_per_hour
    # With stages, the chips work on as many other steps at the same time: each step has a stage's worth of them.
    chips = cut.stage_chips
    shared_s = prefill_s + decode_s / batch
    energy = None
    if power_w is not None:
        energy = energy_receipt(prefill_s * chips * power_w, decode_s / batch * chips * power_w, overhead)
    return RequestCost(
        prefill_s=prefill_s,
        decode_s=decode_s,
        tpot_s=decode_s / (output_tokens - 1) if output_tokens > 1 else 0.0,
        prefill_j=energy.prefill_j if energy else None,
        decode_j=energy.decode_j if energy else None,
        energy_j=energy.chip_j if energy else None,
        chip_wh=energy.chip_j / 3600 if energy else None,
        wall_wh=energy.wall_wh if energy else None,
        j_per_output_token=energy.chip_j / output_tokens if energy else None,
        electricity_usd=energy.wall_wh / 1e3 * usd_per_kwh if energy else None,
        usd=None if hourly is None else shared_s * chips * hourly / 3600,
    )
