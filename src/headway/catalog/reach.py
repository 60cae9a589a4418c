"""The tiers that a chip of a system can read from: its own memory, and those beyond."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.catalog.system import System
from headway.catalog.tier import Tier

HOURS_PER_YEAR = 8766.0
_BESIDE_THE_CHIP = ("hbf",)
_SUPPOSED = ("hbf", "sram")
"""That no system in the catalog has, except as its chip's main memory."""
_MEMORY_IS_THE_HOSTS = ("cpu", "soc")


@dataclass(frozen=True, slots=True)
class Reach:
    """A tier as one chip sees it. `usd_per_byte_hour` None: no price is known."""

    name: str
    bytes: float
    read_bytes_per_s: float
    latency_s: float
    usd_per_byte_hour: float | None
    own: bool = False
    """The chip's main memory: what is there needs no loading."""
    by_chip: bool = False
    """One chip alone reads it: each keeps a copy of its own of what several need."""
    is_there: bool = True
    """The system has it; what is not is supposed."""

    @property
    def drain_s(self) -> float:
        return self.bytes / self.read_bytes_per_s

    def read_s(self, size_bytes: float) -> float:
        return self.latency_s + size_bytes / self.read_bytes_per_s


def reaches(
    system: System, tiers: Mapping[str, Tier], usd_per_chip_hour: float | None, life_years: float
) -> tuple[Reach, ...]:
    """Fastest first. The chip's memory costs its share of the chip; what is bought is paid off evenly over its life.

    Host memory and remote storage are read over the system's own links where the catalog names them, and SRAM of other
    chips no faster than its network.
    """
    chip = system.chip
    hbm = None if usd_per_chip_hour is None else usd_per_chip_hour / chip.hbm_bytes
    mine = "hbm" if chip.hbm_type.lower().startswith("hbm") else chip.hbm_type.lower()
    found = [Reach(mine, chip.hbm_bytes, chip.hbm_bytes_per_s, 0.0, hbm, own=True, by_chip=True)]
    network = system.scaleout or system.scaleup
    for name, tier in tiers.items():
        if mine.startswith(name):
            continue
        rate, size = tier.read_bytes_per_s, tier.bytes
        if name == "dram":
            rate, size = system.host.bytes_per_s if system.host else rate, system.host_bytes or size
        if name == "remote" and network:
            rate = network.bytes_per_s
        if name == "sram":
            rate = min(rate, network.bytes_per_s if network else rate)
        price = None if tier.usd_per_byte is None else tier.usd_per_byte / (life_years * HOURS_PER_YEAR)
        lacks = {"dram": chip.kind in _MEMORY_IS_THE_HOSTS and not system.host, "remote": not network}
        there = name not in _SUPPOSED and not lacks.get(name, False)
        found.append(Reach(name, size, rate, tier.latency_s, price, by_chip=name in _BESIDE_THE_CHIP, is_there=there))
    return tuple(sorted(found, key=lambda reach: -reach.read_bytes_per_s))


def uncertain_tiers(tiers: Mapping[str, Tier]) -> tuple[str, ...]:
    return tuple(
        f"{name} {key} {figure.written}: {figure.status}, {figure.date}" + (f", {figure.note}" if figure.note else "")
        for name, tier in tiers.items()
        for key, figure in tier.figures.items()
        if figure.status in ("announced", "rumour")
    )
