"""Systems: chips joined by links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.catalog import units
from headway.catalog.chip import Chip
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.table import Item, Schema, figures, optional, required, required_text

SCHEMA: Schema = {
    "title": None,
    "chip": None,
    "scaleup_chips": units.CHIPS,
    "scaleup_bytes_per_s": units.LINK_BYTES_PER_S,
    "scaleup_latency_s": units.SECONDS,
    "scaleout_bytes_per_s": units.LINK_BYTES_PER_S,
    "scaleout_latency_s": units.SECONDS,
    "host_bytes": units.BYTES,
    "host_bytes_per_s": units.LINK_BYTES_PER_S,
    "host_memory_bytes_per_s": units.BYTES_PER_S,
}


@dataclass(frozen=True, slots=True)
class Link:
    """What one chip can send in one direction; it can receive as much at the same time."""

    bytes_per_s: float
    latency_s: float | None = None
    """Of one message, software included; None: not known."""


@dataclass(frozen=True, slots=True)
class System:
    """`scaleup_chips` chips share the scale-up domain; beyond it go scale-out links. None: there is no such link."""

    name: str
    title: str
    chip: Chip
    scaleup_chips: int
    scaleup: Link | None
    scaleout: Link | None
    host: Link | None
    """From a chip to its host's memory."""
    host_bytes: float | None
    """Host memory a chip."""
    figures: Mapping[str, Figure] = field(repr=False, compare=False, hash=False)


def system(name: str, item: Item, chips: Mapping[str, Chip]) -> System:
    what = f"system {name}"
    chip_name = required_text(item, "chip", what)
    found = next((chip for known, chip in chips.items() if folded(known) == folded(chip_name)), None)
    if found is None:
        raise CatalogError(f"{what}: its chip {chip_name!r} is not in the catalog")
    return System(
        name=name,
        title=str(item.get("title", name)),
        chip=found,
        scaleup_chips=_whole(required(item, "scaleup_chips", what), what),
        scaleup=_link(item, "scaleup"),
        scaleout=_link(item, "scaleout"),
        host=_link(item, "host"),
        host_bytes=optional(item, "host_bytes"),
        figures=figures(item),
    )


def misnamed(name: str, systems: Mapping[str, System]) -> str | None:
    """What `8 x hgx-h100` or the name of a chip should have been; None: it is no such thing."""
    if folded(name) in map(folded, systems):
        return None
    for known in systems.values():
        if folded(name) == folded(known.chip.name):
            return f"{name!r} is a chip; the system that has it is --system {known.name}"
        if re.fullmatch(rf"\d+-?(x-?)?{re.escape(folded(known.name))}", folded(name)):
            return (
                f"{name!r}: {known.name} is one system of {known.scaleup_chips} {known.chip.name}, not one chip; "
                f"write --system {known.name}, and say how many of its chips a replica takes by --tensor and the like"
            )
    return None


def in_number(text: str, systems: Mapping[str, System]) -> tuple[str, int] | None:
    """`h100x8`, `hgx-h100 x 8`: the name of the system that has such chips, and how many of them. A chip is named in
    full, or by its beginning where a system is named so: hgx-h100 has h100-sxm. None: it is no such thing.
    """
    name = folded(text)
    found = re.fullmatch(r"(.+?)-?x-?([1-9]\d{,5})", name)
    if found is None or name in map(folded, systems):
        return None
    what, count = found[1], int(found[2])
    for known in systems.values():
        own, chip = folded(known.name), folded(known.chip.name)
        if what in (own, chip) or (chip.startswith(f"{what}-") and own.endswith(f"-{what}")):
            return known.name, count
    return None


def folded(name: str) -> str:
    """Names are told apart without case, blanks and underscores."""
    return name.lower().replace(" ", "-").replace("_", "-")


def _link(item: Item, which: str) -> Link | None:
    bytes_per_s = optional(item, f"{which}_bytes_per_s")
    return None if bytes_per_s is None else Link(bytes_per_s, optional(item, f"{which}_latency_s"))


def _whole(chips: float, what: str) -> int:
    if chips != int(chips):
        raise CatalogError(f"{what}: scaleup_chips must be a whole number, not {chips}")
    return int(chips)
