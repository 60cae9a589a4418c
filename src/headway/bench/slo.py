"""What a request must keep to count as good."""

from __future__ import annotations

import msgspec

LIMITS = ("ttft", "tpot", "gap", "e2e")


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
