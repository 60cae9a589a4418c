"""Which of a system's figures are no datasheet's and nobody's measurement."""

from __future__ import annotations

from collections.abc import Sequence

from headway.catalog import System

_UNUSED = ("year", "tco_usd_per_hour", "price_usd", "sram_bytes", "host_bytes", "host_bytes_per_s")


HOST = ("host_bytes", "host_bytes_per_s")
"""What tiers rest on."""


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


def uncertain_of_several(systems: Sequence[System]) -> tuple[str, ...]:
    """Each once; where systems differ it names those that have it."""
    owners: dict[str, dict[str, None]] = {}
    for system in systems:
        for line in uncertain_figures(system):
            owners.setdefault(line, {})[system.name] = None
    several = len({system.name for system in systems}) > 1
    return tuple(f"{line} ({', '.join(names)})" if several else line for line, names in owners.items())
