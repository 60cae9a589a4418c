"""Tiers: places where cache or weights wait until they are needed, beside the chip's own memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.catalog import units
from headway.catalog.figure import Figure
from headway.catalog.table import Item, Schema, figures, optional, required

SCHEMA: Schema = {
    "title": None,
    "bytes": units.BYTES,
    "read_bytes_per_s": units.BYTES_PER_S,
    "latency_s": units.SECONDS,
    "usd_per_byte": units.USD_PER_BYTE,
}


@dataclass(frozen=True, slots=True)
class Tier:
    """One device of it. None: not known."""

    name: str
    title: str
    bytes: float
    read_bytes_per_s: float
    latency_s: float
    usd_per_byte: float | None
    """To buy, not to hold for a time."""
    figures: Mapping[str, Figure] = field(repr=False, compare=False, hash=False)

    @property
    def drain_s(self) -> float:
        """Time to read all of it once."""
        return self.bytes / self.read_bytes_per_s


def tier(name: str, item: Item) -> Tier:
    what = f"tier {name}"
    return Tier(
        name,
        str(item.get("title", name)),
        required(item, "bytes", what),
        required(item, "read_bytes_per_s", what),
        required(item, "latency_s", what),
        optional(item, "usd_per_byte"),
        figures(item),
    )
