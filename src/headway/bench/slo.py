"""What a request must keep to count as good."""

from __future__ import annotations

from collections.abc import Mapping

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

    def said(self) -> str:
        """The limits, without the share."""
        return limits_said({f"{name}_s": getattr(self, f"{name}_s") for name in LIMITS})


def limits_said(limits_s: Mapping[str, float | None]) -> str:
    """`ttft <= 2 s, tpot <= 50 ms`, of fields as Slo has them."""
    return ", ".join(f"{name.removesuffix('_s')} <= {_time(s)}" for name, s in limits_s.items() if s is not None)


def percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _time(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{1000 * seconds:g} ms"
