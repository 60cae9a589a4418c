"""Chips: what one accelerator (or CPU socket) can hold, move and multiply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.catalog import units
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.table import Item, Schema, figures, optional, required, required_text

SCHEMA: Schema = {
    "title": None,
    "vendor": None,
    "kind": None,
    "hbm_type": None,
    "year": units.YEAR,
    "hbm_bytes": units.BYTES,
    "hbm_bytes_per_s": units.BYTES_PER_S,
    "sram_bytes": units.BYTES,
    "bf16_flops_per_s": units.FLOPS_PER_S,
    "fp8_flops_per_s": units.FLOPS_PER_S,
    "fp4_flops_per_s": units.FLOPS_PER_S,
    "int8_flops_per_s": units.FLOPS_PER_S,
    "tdp_w": units.WATTS,
    "idle_w": units.WATTS,
    "tco_usd_per_hour": units.USD_PER_HOUR,
    "rent_usd_per_hour": units.USD_PER_HOUR,
    "price_usd": units.USD,
}
RATES = ("bf16", "fp8", "fp4", "int8")
_OPTIONAL = (
    "sram_bytes",
    *(f"{rate}_flops_per_s" for rate in RATES),
    "tdp_w",
    "idle_w",
    "tco_usd_per_hour",
    "rent_usd_per_hour",
    "price_usd",
)


@dataclass(frozen=True, slots=True)
class Chip:
    """None: not published, and never guessed. `hbm` is the main memory, whatever its type (`hbm_type` says)."""

    name: str
    title: str
    vendor: str
    kind: str
    hbm_type: str
    hbm_bytes: float
    hbm_bytes_per_s: float
    sram_bytes: float | None
    bf16_flops_per_s: float | None
    fp8_flops_per_s: float | None
    fp4_flops_per_s: float | None
    int8_flops_per_s: float | None
    """Dense, not sparse, as all rates."""
    tdp_w: float | None
    idle_w: float | None
    tco_usd_per_hour: float | None
    """What it costs its owner, everything included."""
    rent_usd_per_hour: float | None
    price_usd: float | None
    figures: Mapping[str, Figure] = field(repr=False, compare=False, hash=False)

    def flops_per_s(self, rate: str) -> float:
        """Raises CatalogError if the chip publishes none of this rate."""
        value: float | None = getattr(self, f"{rate}_flops_per_s")
        if value is None:
            have = [r for r in RATES if getattr(self, f"{r}_flops_per_s")]
            raise CatalogError(
                f"{self.name} has no published {rate}_flops_per_s (it has: {', '.join(have) or 'none'}); "
                "give it in a chips.csv of your own with --catalog"
            )
        return value

    def read_s(self, size_bytes: float) -> float:
        """Time to read that much main memory at the peak."""
        return size_bytes / self.hbm_bytes_per_s

    @property
    def drain_s(self) -> float:
        """Time to read the whole memory once: the longest step that memory alone can cause."""
        return self.read_s(self.hbm_bytes)

    def ridge(self, rate: str) -> float:
        """FLOPs a byte at which compute and memory take equally long."""
        return self.flops_per_s(rate) / self.hbm_bytes_per_s


def chip(name: str, item: Item) -> Chip:
    what = f"chip {name}"
    cells: dict[str, Any] = {key: required_text(item, key, what) for key in ("vendor", "kind", "hbm_type")}
    cells |= {key: required(item, key, what) for key in ("hbm_bytes", "hbm_bytes_per_s")}
    cells |= {key: optional(item, key) for key in _OPTIONAL}
    return Chip(name=name, title=str(item.get("title", name)), **cells, figures=figures(item))
