"""What a pool of replicas did, and what it costs: chips by the hour, and the tiers that keep KV below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.simulator.executor import ModelledExecutor
from headway.simulator.price import Price, added

if TYPE_CHECKING:
    from headway.simulator.results import Quantiles

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """As in `Summary`, of one pool."""

    name: str
    role: str
    replicas: int
    chips: int
    steps: int
    busy_s: float
    busy_share: float
    energy_j: float | None
    cost_usd: float | None
    chip_usd: float | None
    tier_usd: float | None
    charged_usd: float | None
    received_bytes: float
    """KV that was handed over to it."""
    failed_handovers: int
    """After which it computed instead."""
    ttft_s: Quantiles | None
    """Of the calls that got their first token from it. None, as the next: there is but one pool."""
    tpot_s: Quantiles | None
    """Of those that it answered."""


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What a pool's replicas did, and what one of them costs."""

    name: str
    chips_each: int
    price: Price
    """Of a replica's chips."""
    executors: Sequence[ModelledExecutor]
    role: str = "mixed"
    received_bytes: float = 0.0
    failed_handovers: int = 0
    tier_usd_per_hour: float | None = 0.0
    """Of all tiers of a replica. None: not known of one of them."""
    ttft_s: Quantiles | None = None
    tpot_s: Quantiles | None = None

    def summary(self, duration_s: float, charged_ns: int) -> PoolSummary:
        """`charged_ns`: what receipts carry of its steps."""
        executors, price = self.executors, self.price
        busy_s = sum(e.device_ns + e.host_ns for e in executors) / 1e9
        held_s = duration_s * len(executors)
        chip_usd, tier_usd = _paid(held_s, price.usd_per_hour), _paid(held_s, self.tier_usd_per_hour)
        return PoolSummary(
            name=self.name,
            role=self.role,
            replicas=len(executors),
            chips=self.chips_each * len(executors),
            steps=sum(e.num_steps for e in executors),
            busy_s=busy_s,
            busy_share=busy_s / held_s if held_s else 0.0,
            energy_j=None if price.power_w is None else busy_s * price.power_w,
            cost_usd=added((chip_usd, tier_usd)),
            chip_usd=chip_usd,
            tier_usd=tier_usd,
            charged_usd=_paid(charged_ns / 1e9, price.usd_per_hour),
            received_bytes=self.received_bytes,
            failed_handovers=self.failed_handovers,
            ttft_s=self.ttft_s,
            tpot_s=self.tpot_s,
        )


def _paid(time_s: float, usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else time_s / HOUR_S * usd_per_hour
