"""Replicas that are alike, and how fast they are beside others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.scheduler.config import SchedulerConfig
from headway.simulator.executor import Timer, step_sums
from headway.workload.call import WorkloadError


@dataclass(frozen=True, slots=True)
class Pool:
    num_replicas: int
    scheduler: SchedulerConfig
    timer: Timer

    def __post_init__(self) -> None:
        if self.num_replicas < 1:
            raise WorkloadError(f"replicas must be at least 1, not {self.num_replicas}")

    def tokens_per_s(self) -> float:
        """Of the longest chunk of a prompt that one step takes."""
        tokens = self.scheduler.max_step_tokens
        sums = step_sums(self.timer.spans, np.zeros(1, np.int64), np.array([tokens]))
        step = self.timer.one(tokens, 1, 1, *sums)
        return tokens / max(1, step.device_ns + step.host_ns) * 1e9
