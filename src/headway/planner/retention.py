"""Keep a prefix's cache or compute it again: for how long does holding pay."""

from __future__ import annotations

from dataclasses import dataclass

from headway.arithmetic.attends import spans
from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.step_shape import prefill
from headway.arithmetic.work import step_work
from headway.catalog import Chip
from headway.roofline import rate_flops_per_s

ASSUMPTIONS = (
    "holding costs the share of a chip whose memory the cache fills, recomputing the chips' time",
    "so the price of a chip-hour cancels out of the break-even",
    "attention FLOPs are counted; every FLOP runs at `mfu` of the peak",
)


@dataclass(frozen=True, slots=True)
class Retention:
    tokens: int
    recompute_s: float
    recompute_usd: float
    hold_bytes: int
    hold_usd_per_hour: float
    break_even_s: float
    assumptions: tuple[str, ...] = ASSUMPTIONS


def retention(
    model: ModelShape,
    chip: Chip,
    tokens: int,
    chips: int,
    usd_per_chip_hour: float,
    mfu: float,
    precision: Precision | None = None,
) -> Retention:
    """Held in the main memory of the chips that serve. Raises ValueError for an mfu outside 0 .. 1."""
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu must be above 0 and at most 1, not {mfu}")
    precision = precision or Precision()
    work = step_work(model, prefill(spans(model), tokens), precision)
    seconds = sum(float(work.flops_at(r)) / rate_flops_per_s(chip, r) for r in work.rates) / (chips * mfu)
    held = kv_bytes(model, tokens, precision)
    recompute_usd = seconds * chips * usd_per_chip_hour / 3600
    hold_usd_per_hour = held / chip.hbm_bytes * usd_per_chip_hour
    return Retention(tokens, seconds, recompute_usd, held, hold_usd_per_hour, recompute_usd / hold_usd_per_hour * 3600)
