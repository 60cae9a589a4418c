"""A machine file: what was measured on one machine with one model, as a chip, a system and the fit of its steps.

Wherever a system's name is asked for, the file's path will do; a path is told from a name by its ending.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from headway.catalog import units
from headway.catalog.calibration import SCHEMA
from headway.catalog.chip import Chip
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.system import System
from headway.catalog.table import read_bounded

VERSION = 1
MAX_BYTES = 1_000_000
ENDINGS = (".json", ".toml")
_DECODERS = {".json": msgspec.json.decode, ".toml": msgspec.toml.decode}
_IN_ZERO_TO_ONE = (units.FRACTION,)

Positive = Annotated[float, msgspec.Meta(gt=0, le=1e30)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Peaks(_Part, frozen=True):
    """Of the machine: memory that a model may use, and the fastest that probes and steps were seen to run."""

    memory_bytes: Positive
    memory_bytes_per_s: Positive
    flops_per_s: Positive
    """In the number format of the model."""
    power_w: Positive | None = None
    """Not measured: for whoever knows it."""
    usd_per_hour: Positive | None = None


class Served(_Part, frozen=True):
    """How `headway serve` sets itself up there."""

    block_size: Count
    num_blocks: Count
    """Of the growing cache group."""
    max_running: Count
    max_step_tokens: Count
    max_context: Count


class MachineFile(_Part, frozen=True):
    """`fit`: coefficients of the calibrated cost model, by name; those that are not named keep their defaults."""

    version: int
    date: str
    machine: str
    """In words."""
    versions: dict[str, str]
    model: str
    config: dict[str, Any]
    """The model's, in the form of Hugging Face."""
    dtype: str
    number_format: str
    """Of weights and cache, by the name that the arithmetic has for it."""
    device: str
    peaks: Peaks
    served: Served
    fit: dict[str, Share]
    points: Count
    """Steps of different shape, each measured several times."""
    steps: Count
    median_error: Share
    """Of the points' times, in sample."""
    held_out_median_error: Share
    """Of each point by a fit that has not seen it, nor others of its scenario."""
    held_out_mean_error: Share
    disturbance: Positive
    """All measured time over what it would be if every step took its point's median; the fit includes it."""

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise ValueError(f"version must be {VERSION}, not {self.version}")
        for name, value in self.fit.items():
            if name not in SCHEMA:
                raise ValueError(f"fit: {name!r} is no coefficient; there are {', '.join(SCHEMA)}")
            if not math.isfinite(value):
                raise ValueError(f"fit: {name} must be finite, not {value}")
            if SCHEMA[name] in _IN_ZERO_TO_ONE and value > 1:
                raise ValueError(f"fit: {name} must be at most 1, not {value}")


def is_machine_file(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def read_machine(path: Path) -> MachineFile:
    """Raises CatalogError, one line, for what is no such file."""
    content = read_bounded(Path(os.path.expanduser(path)), MAX_BYTES)
    try:
        return _DECODERS[path.suffix.lower()](content, type=MachineFile)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CatalogError(f"{path}: not a machine file of headway calibrate: {error}") from None


def write_machine(machine: MachineFile, path: Path) -> None:
    """Whole or not at all. Raises CatalogError where it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(machine)) + b"\n")
        os.replace(part, path)
    except OSError as error:
        raise CatalogError(f"{path}: {error.strerror or error}") from None


def machine_system(name: str, machine: MachineFile) -> System:
    """One chip, which all of the machine is taken for; it has no links. `name` is the file's path."""
    source, peaks = f"headway calibrate, {machine.machine}", machine.peaks

    def measured(value: float, unit: str) -> Figure:
        return Figure(value, f"{value:.6g} {unit}", "measured", source, machine.date)

    chip = Chip(
        name=name,
        title=machine.machine,
        vendor="",
        kind=machine.device,
        hbm_type="main memory",
        hbm_bytes=peaks.memory_bytes,
        hbm_bytes_per_s=peaks.memory_bytes_per_s,
        sram_bytes=None,
        bf16_flops_per_s=peaks.flops_per_s,
        fp8_flops_per_s=None,
        fp4_flops_per_s=None,
        int8_flops_per_s=None,
        tdp_w=peaks.power_w,
        idle_w=None,
        tco_usd_per_hour=None,
        rent_usd_per_hour=peaks.usd_per_hour,
        price_usd=None,
        figures={
            "hbm_bytes": measured(peaks.memory_bytes, "B"),
            "hbm_bytes_per_s": measured(peaks.memory_bytes_per_s, "B/s"),
            "bf16_flops_per_s": measured(peaks.flops_per_s, "FLOP/s"),
        },
    )
    return System(name, machine.machine, chip, 1, None, None, None, None, figures={})


def machine_fit(machine: MachineFile) -> Mapping[str, Figure]:
    """In the form of the catalog's calibrations."""
    source = f"headway calibrate, {machine.model} in {machine.dtype} on {machine.machine}"
    stated = {
        "points": float(machine.points),
        "median_error": machine.median_error,
        "held_out_median_error": machine.held_out_median_error,
        "held_out_mean_error": machine.held_out_mean_error,
    }
    values = machine.fit | stated
    return {name: Figure(value, f"{value:.6g}", "measured", source, machine.date) for name, value in values.items()}
