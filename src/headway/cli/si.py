"""Quantities as text: SI prefixes; bytes in decimal and binary."""

from __future__ import annotations

import math

_SI = (
    (1e24, "Y"),
    (1e21, "Z"),
    (1e18, "E"),
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
_TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"))
_BINARY = ((2**50, "Pi"), (2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def si(value: float, unit: str, digits: int = 4) -> str:
    """So many significant digits, four at most, with a decimal prefix. What rounds to 1000 of one gets the next. Nobody
    counts in kiloseconds: long times are seconds, with minutes, hours or days beside them.
    """
    rounded = abs(float(f"{value:.{digits}g}"))
    if unit == "s" and 1e3 <= rounded < 1e12:
        return f"{math.copysign(rounded, value):,.0f} s ({_long(value)})"
    for factor, prefix in _SI:
        if rounded >= factor:
            return f"{value / factor:.{digits}g} {prefix}{unit}"
    return f"{value:.{digits}g} {unit}"


def _long(seconds: float) -> str:
    """In the largest unit that it has two of."""
    factor, unit = next((each for each in _TIMES if abs(seconds) >= 2 * each[0]), _TIMES[-1])
    return plain(seconds / factor, unit)


def plain(value: float, unit: str = "") -> str:
    """Three significant digits without a prefix: 1,230 or 0.0123. Below a thousandth of a unit with one."""
    if unit and 0 < abs(value) < 1e-3:
        return si(value, unit, 3)
    value = float(f"{value:.3g}")
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def seconds(value: float) -> str:
    """Three significant digits; a prefix only below one."""
    return plain(value, "s") if abs(value) >= 1 else si(value, "s", 3)


def size(value: float) -> str:
    """Decimal and binary side by side, so that neither is taken for the other."""
    for factor, prefix in _BINARY:
        if abs(value) >= factor:
            return f"{si(value, 'B')} ({value / factor:.4g} {prefix}B)"
    return f"{value:.4g} B"
