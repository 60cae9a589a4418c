"""What `best`, `pareto` and `fast-mode` rest on: formulas and assumptions of a search."""

from __future__ import annotations

from collections.abc import Mapping

from headway.planner.bounds import has_joules
from headway.planner.deployment import CALIBRATED, FLOOR
from headway.planner.lengths import Lengths
from headway.planner.split import BUSIEST
from headway.roofline import Calibration

_RATES = (
    "interactivity = 1 / TPOT",
    "USD/Mtok = USD a chip-hour / 3600 / throughput x 10^6, of output tokens",
)
_DECODE = ("TPOT = step of the batch", "throughput = batch / step / chips")
_FLOOR_TPOT = (
    "mixed: TPOT = max(compute, memory, network), each that of the decode step + (batch - 1) / output of a prompt's; "
    "weights are read once for both"
)
_FITTED_TPOT = (
    "mixed: TPOT = step / tokens a step + w / sqrt(1 + (w / most)^2): w = mixing x (batch - 1) / output x a prompt's "
    "time, most = chunk / new tokens x a prompt's time"
)
_SERVED = (
    "TTFT = prompt's step + the step under way (a fit: as many as it says) + wait for the prompts before it "
    "(closed queue of the batch) + what a request takes outside of steps",
    "mixed: throughput = batch x output / there / chips (Little's law); there = TTFT + (output - 1) x TPOT, and with a "
    "fit at least batch x a prompt's time + output x step",
    "split: TPOT = step; TTFT = prompt's step + u / (2 (1 - u)) x prompt's time (M/D/1) + KV of a chip / link; "
    "throughput = what the decoding replicas make / chips of both kinds",
)
_CHIPS = "90% of each chip's memory is for weights and cache; configurations that do not fit are left out"
_LONG = (
    "a sequence's cache that is at least a tenth of the weights that a token needs is cut by its tokens (context) too, "
    "where its heads are all dealt out"
)
_REPLICAS = "a configuration is one unit of whole replicas; a system runs as many units as it has room for"
_NO_JOULES = (
    "power is never named as the bound: the catalog has no measured joules a FLOP and byte of these chips, so whether "
    "a cap holds them back cannot be told; `plan limits` judges it where a calibration has them"
)
_JOULES = "power is not looked at here: `plan limits` judges it by the joules of the calibration"


def formulas(load: Lengths | int, fitted: bool) -> tuple[str, ...]:
    if isinstance(load, int):
        return (*_DECODE, *_RATES)
    return (_FITTED_TPOT if fitted else _FLOOR_TPOT, *_SERVED, *_RATES)


def assumptions(load: Lengths | int, fits: Mapping[str, Calibration]) -> tuple[str, ...]:
    """`fits`: by chip; none: floors."""
    steps = (CALIBRATED, *(error_of(chip, fit) for chip, fit in fits.items())) if fits else (FLOOR,)
    if isinstance(load, int):
        return (
            "decode only: prompts are computed on other chips, which are not counted",
            "every sequence is as long as the context",
            _REPLICAS,
            _LONG,
            _CHIPS,
            *steps,
            _power(fits),
        )
    return (
        f"each request: {load.prompt:,} tokens in ({load.cached:,} cached), {load.output:,} out",
        *(("nobody sees tokens/s a user of one output token: no SLO of it is applied",) if load.output == 1 else ()),
        "a batch in flight at any time: the next request comes when one ends",
        "sequences are half way through their output on the average; memory and steps count them so",
        f"split: whole replicas of one system and format; those for prompts are busy {BUSIEST:.0%} of the time at most",
        *(("a fit is of engines that mix; its steps are taken to be the same without prompts",) if fits else ()),
        _REPLICAS,
        _LONG,
        _CHIPS,
        *steps,
        _power(fits),
    )


def _power(fits: Mapping[str, Calibration]) -> str:
    return _JOULES if any(map(has_joules, fits.values())) else _NO_JOULES


def error_of(chip: str, fit: Calibration) -> str:
    """How far off the fit's TPOT was, and its TTFT."""
    unseen = "" if fit.held_out_median_error is None else f", {fit.held_out_median_error:.0%} where it was held out"
    whose = f"{chip}:" if fit.measured_chip else f"{chip} was never measured and is taken from its datasheet; of others"
    tpot = f"TPOT is off by {fit.median_error:.0%} (median of {fit.points:,}){unseen}{_within(fit.interval_ratio)}"
    if fit.ttft_held_out_median_error is None:
        return f"{whose} {tpot}; TTFT less sure"
    return f"{whose} {tpot}; TTFT by {fit.ttft_held_out_median_error:.0%} there{_within(fit.ttft_interval_ratio)}"


def _within(ratio: float | None) -> str:
    return "" if ratio is None else f", nine in ten within a factor of {ratio:.3g}"
