"""Replicas that are alike, and how fast they are beside others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Ints
from headway.simulator.executor import Timer, step_sums
from headway.simulator.handover import Port
from headway.simulator.model_routes import ANY
from headway.simulator.queue_limits import QueueLimits
from headway.simulator.tier_memory import TierMemory
from headway.workload.call import WorkloadError

Role = Literal["mixed", "prefill", "decode"]
"""`prefill`: computes prompts and their first token, then hands over; `decode`: goes on from there."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Raises WorkloadError for no replicas."""

    num_replicas: int
    scheduler: SchedulerConfig
    timer: Timer
    tiers: tuple[TierMemory, ...] = ()
    """As the scheduler has them, nearest first."""
    kv_block_bytes: float = 0.0
    """Of all layers, for one block of tokens."""
    role: Role = "mixed"
    region: str = ""
    serves: str = ANY
    """A pattern of the models, as the trace names them, that are asked of it."""
    port: Port | None = None
    """For hand-overs: needed where it prefills or decodes only."""
    queue: QueueLimits = field(default_factory=QueueLimits)
    """Of each replica."""
    device_block_bytes: float | None = None
    """Of the layers of the first cache group, whose blocks are counted; None: of all layers."""

    def __post_init__(self) -> None:
        if self.num_replicas < 1:
            raise WorkloadError(f"replicas must be at least 1, not {self.num_replicas}")

    def tokens_per_s(self) -> float:
        """Of the longest chunk of a prompt that a step takes; where it decodes only, of a full batch on full memory."""
        if self.role == "decode":
            rows = self.scheduler.max_running
            held = self.scheduler.groups[0].num_blocks * self.scheduler.block_size // rows
            return self._rate(np.full(rows, min(held, self.scheduler.max_context - 1)), np.ones(rows, np.int64))
        return self._rate(np.zeros(1, np.int64), np.array([self.scheduler.max_step_tokens]))

    def _rate(self, starts: Ints, counts: Ints) -> float:
        tokens, rows = int(counts.sum()), len(starts)
        step = self.timer.one((tokens, rows, rows, *step_sums(self.timer.spans, starts, counts)))
        return tokens / max(1, step.device_ns + step.host_ns) * 1e9


def check_roles(pools: Sequence[Pool]) -> None:
    """Raises WorkloadError for pools that cannot hand over to each other. None does so to another region."""
    for region in dict.fromkeys(pool.region for pool in pools):
        _check_roles([pool for pool in pools if pool.region == region])


def _check_roles(pools: Sequence[Pool]) -> None:
    roles = {pool.role for pool in pools}
    if ("prefill" in roles) != ("decode" in roles):
        raise WorkloadError("pools that only prefill and pools that only decode need each other (role=mixed does both)")
    for pool in pools:
        if pool.role != "mixed" and pool.port is None:
            raise WorkloadError(f"a pool with role={pool.role} needs a link for the hand-over")
        if pool.role == "decode" and not pool.scheduler.prefix_caching:
            raise WorkloadError("a pool with role=decode finds what it is sent in its prefix cache: it needs one")
        if pool.role == "decode" and any(group.kind == "state" for group in pool.scheduler.groups):
            raise WorkloadError("a model with constant states keeps none at block borders: it cannot be handed over")
