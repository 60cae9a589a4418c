"""Units that a catalog file may use, for each quantity, and how much a sane value is. GB is 10^9 bytes, GiB 2^30."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from headway.catalog.figure import CatalogError

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _scaled(*bases: str, binary: bool = False) -> dict[str, float]:
    prefixes = {**_DECIMAL, **(_BINARY if binary else {})}
    return {prefix + base: factor for base in bases for prefix, factor in prefixes.items()}


def _bandwidth(suffix: str, factor: float) -> dict[str, float]:
    octets = {f"{unit}/s{suffix}": f * factor for unit, f in _scaled("B", binary=True).items()}
    bits = {f"{unit}/s{suffix}": f * factor / 8 for unit, f in _scaled("bit").items()}
    return octets | bits


@dataclass(frozen=True, slots=True)
class Quantity:
    """`units` map what a file may say to SI; values outside low .. high are taken for a mistaken unit."""

    units: dict[str, float]
    low: float
    high: float

    def to_si(self, value: str, unit: str, where: str) -> float:
        """Raises CatalogError, naming the unit, for what is no positive, finite, plausible number in a known unit."""
        if unit not in self.units:
            raise CatalogError(f"{where}: unit {unit!r} does not fit; allowed: {', '.join(self.units)}")
        try:
            number = float(value)
        except ValueError:
            raise CatalogError(f"{where}: {value!r} is not a number (in {unit})") from None
        if not math.isfinite(number) or number <= 0:
            raise CatalogError(f"{where}: {value} {unit} must be finite and above 0")
        si = float(Decimal(value) * Decimal(repr(self.units[unit])))
        if not self.low <= si <= self.high:
            raise CatalogError(
                f"{where}: {value} {unit} is not plausible; between {self.low:g} and {self.high:g} in SI"
            )
        return si


BYTES = Quantity(_scaled("B", binary=True), 1e5, 1e16)
BYTES_PER_S = Quantity(_bandwidth("", 1.0), 1e9, 1e18)
LINK_BYTES_PER_S = Quantity(_bandwidth(" one-way", 1.0) | _bandwidth(" both-ways", 0.5), 1e7, 1e17)
"""Of one direction. A file must say which it gives: both-ways counts the two directions together."""
FLOPS_PER_S = Quantity(_scaled("FLOP/s", "OP/s"), 1e10, 1e18)
SECONDS = Quantity({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}, 1e-9, 10.0)
SHORT_SECONDS = Quantity({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}, 1e-12, 10.0)
FRACTION = Quantity({"fraction": 1.0, "%": 0.01}, 1e-6, 1.0)
RATIO = Quantity({"ratio": 1.0, "fraction": 1.0}, 1e-6, 1e6)
ROWS = Quantity({"rows": 1.0}, 1e-6, 1e9)
WATTS = Quantity({"W": 1.0, "kW": 1e3}, 0.5, 1e6)
USD = Quantity({"USD": 1.0}, 1.0, 1e9)
USD_PER_BYTE = Quantity({"USD/GB": 1e-9, "USD/GiB": 2.0**-30, "USD/TB": 1e-12}, 1e-15, 1e-2)
USD_PER_HOUR = Quantity({"USD/h": 1.0}, 1e-3, 1e5)
CHIPS = Quantity({"chips": 1.0}, 1, 1e6)
YEAR = Quantity({"year": 1.0}, 1990, 2100)
JOULES_PER_BYTE = Quantity({"pJ/bit": 8e-12, "pJ/B": 1e-12}, 1e-14, 1e-6)
JOULES_PER_FLOP = Quantity({"pJ/FLOP": 1e-12}, 1e-15, 1e-6)
