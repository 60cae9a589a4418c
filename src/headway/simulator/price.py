"""What chips take and cost, and sums of such amounts, some of which nobody publishes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def added(amounts: Iterable[float | None]) -> float | None:
    """None as soon as one is unknown."""
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


@dataclass(frozen=True, slots=True)
class Price:
    """Of one chip, or of several. None: not published."""

    power_w: float | None
    usd_per_hour: float | None

    def times(self, chips: int) -> Price:
        watts, usd = self.power_w, self.usd_per_hour
        return Price(None if watts is None else watts * chips, None if usd is None else usd * chips)

    def plus(self, other: Price) -> Price:
        """Not published if one of the two is not."""
        return Price(added((self.power_w, other.power_w)), added((self.usd_per_hour, other.usd_per_hour)))

    @property
    def usd_per_s(self) -> float | None:
        return None if self.usd_per_hour is None else self.usd_per_hour / 3600
