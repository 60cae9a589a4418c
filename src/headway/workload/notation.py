"""Distributions as text: `512` is fixed, `100-900` uniform, `1000~0.8` lognormal with median 1000; times have units."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.workload.call import WorkloadError
from headway.workload.dialogue import MAX_CALLS, MOST_DRAWN
from headway.workload.lengths import MAX_TOKENS, Distribution, Fixed, LogNormal, Uniform

MAX_LOG_STD = 5.0
_WHOLE = re.compile(r"(\d{1,15})()")
_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?(us|ms|s|min|h|d|)")
_UNITS_S = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_LOG_STD = re.compile(r"\d(?:\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Notation:
    """Of one kind of quantity, which is between `least` and `most`."""

    noun: str
    least: float
    most: float
    examples: tuple[str, str, str]
    """Fixed, uniform, lognormal."""
    numbers: str
    number: re.Pattern[str] = _WHOLE
    units: Mapping[str, float] = field(default_factory=lambda: {"": 1.0})

    def parse(self, text: str) -> Distribution:
        """Raises WorkloadError."""
        made = self._made(text.strip())
        if made is None:
            fixed, uniform, lognormal = self.examples
            raise WorkloadError(
                f"{self.noun} {text!r} are not understood: {fixed} (fixed), {uniform} (uniform) or {lognormal} (median "
                f"and log-deviation of at most {MAX_LOG_STD:g}), "
                f"of {self.least:,.0f} to {self.most:,.0f} {self.numbers}"
            )
        return made

    def _made(self, text: str) -> Distribution | None:
        median, has_spread, log_std = text.partition("~")
        if has_spread:
            spread = float(log_std) if _LOG_STD.fullmatch(log_std) else math.inf
            center = self._value(median)
            return None if center is None or spread > MAX_LOG_STD else LogNormal(center, spread)
        first, is_range, last = text.partition("-")
        low, high = self._value(first), self._value(last if is_range else first)
        if low is None or high is None or low > high:
            return None
        return Uniform(low, high) if is_range else Fixed(low)

    def _value(self, text: str) -> float | None:
        match = self.number.fullmatch(text)
        value = math.nan if match is None else float(match[1]) * self.units[match[2]]
        return value if self.least <= value <= self.most else None


LENGTHS = Notation("lengths", 1, MAX_TOKENS, ("512", "100-900", "1000~0.8"), "whole tokens")
COUNTS = Notation("numbers", 1, MAX_CALLS, ("5", "2-8", "5~0.6"), "whole ones")
TIMES = Notation("times", 0, MOST_DRAWN, ("40s", "10s-2min", "40s~1.2"), "seconds", _TIME, _UNITS_S)
