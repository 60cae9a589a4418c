"""What a request must keep to count as good."""

from __future__ import annotations

import re

import msgspec

LIMITS = ("ttft", "tpot", "gap", "e2e")
_PART = re.compile(r"(?P<name>[a-z0-9]+)\s*(?:<=|=|<|:)\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)")


class SloError(ValueError):
    """One line that says what an SLO looks like."""


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in seconds; None: not limited. `share`: how many requests must keep them for a run to hold the SLO."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    gap_s: float | None = None
    """The longest gap between two arrivals of text."""
    e2e_s: float | None = None
    share: float = 0.9

    def __str__(self) -> str:
        limits = {name: getattr(self, f"{name}_s") for name in LIMITS}
        return ",".join(f"{name}={limit:g}s" for name, limit in limits.items() if limit is not None)


def parse_slo(text: str, share: float = 0.9) -> Slo:
    """`ttft=2s,tpot=50ms`. Raises SloError."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None or match["name"] not in LIMITS or float(match["value"]) <= 0:
            raise SloError(f"{part.strip()!r} is not a limit: write ttft=2s, tpot=50ms, gap=200ms or e2e=30s")
        if match["name"] in limits:
            raise SloError(f"{match['name']} is limited twice")
        limits[match["name"]] = float(match["value"]) * (0.001 if match["unit"] == "ms" else 1.0)
    return Slo(share=share, **{f"{name}_s": value for name, value in limits.items()})
