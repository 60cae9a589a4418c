"""Which of a system's figures are no datasheet's and nobody's measurement."""

from __future__ import annotations

from collections.abc import Sequence

from headway.catalog import Chip, System

HOST = ("host_bytes", "host_bytes_per_s")
"""What tiers rest on."""
RENT = ("rent_usd_per_hour",)
"""What dollars rest on."""
_UNUSED = ("year", "tco_usd_per_hour", "price_usd", "sram_bytes", *HOST, *RENT)


def uncertain_figures(system: System, *besides: str) -> tuple[str, ...]:
    """Those that a cost may rest on, with status and date; the catalog has the source. A floor leaves latencies out.
    `besides`: of what few costs rest on, the figures that this one does.
    """
    figures = {**system.chip.figures, **system.figures}
    return tuple(
        f"{name} {figure.written}: {figure.status}, {figure.date}"
        for name, figure in figures.items()
        if figure.status in ("announced", "rumour") and (name not in _UNUSED or name in besides)
    )


def rent_of(chip: Chip, usd_per_chip_hour: float | None) -> tuple[str, ...]:
    """RENT, if the catalog's is what an hour of the chip is taken to cost."""
    return RENT if usd_per_chip_hour is not None and usd_per_chip_hour == chip.rent_usd_per_hour else ()


def uncertain_of_several(systems: Sequence[System], *besides: str) -> tuple[str, ...]:
    """Each once; where systems differ it names those that have it."""
    owners: dict[str, dict[str, None]] = {}
    for system in systems:
        for line in uncertain_figures(system, *besides):
            owners.setdefault(line, {})[system.name] = None
    several = len({system.name for system in systems}) > 1
    return tuple(f"{line} ({', '.join(names)})" if several else line for line, names in owners.items())
