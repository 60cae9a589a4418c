"""What an engine process is told when it starts, as one JSON argument."""

from __future__ import annotations

from typing import Literal

import msgspec

from headway.engine.messages import PROTOCOL
from headway.scheduler.config import CacheGroup, SchedulerConfig, Speculation, Tier

_CPU_STEP_TOKENS = 512
_ACCELERATOR_STEP_TOKENS = 2048
MEMORY = "dram"


class KVTier(msgspec.Struct, frozen=True):
    """A slower memory for KV: MEMORY is the host's, any other lies in a file in `directory`."""

    name: str
    size_bytes: int
    directory: str


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """None leaves a value to the model or to the device."""

    model_dir: str
    name: str
    """What the API calls the model."""
    protocol: int = PROTOCOL
    dtype: str = "auto"
    device: str = "auto"
    block_size: int = 16
    max_running: int = 256
    max_step_tokens: int | None = None
    max_context: int | None = None
    kv_bytes: int | None = None
    kv_tiers: tuple[KVTier, ...] = ()
    """Nearest first."""
    kv_ttl_s: float | None = None
    """For how long KV that nobody uses is kept, on the device and in the tiers."""
    prefix_caching: bool = True
    speculation: Speculation | None = None
    batching: Literal["continuous", "static"] = "continuous"
    reservation: Literal["demand", "worst_case"] = "demand"
    max_queued_requests: int = 4096
    max_queued_tokens: int = 4_000_000
    step_log: str | None = None
    """The file of the first engine; the n-th one after it writes to this name with `.n` behind it."""


def scheduler_config(
    settings: EngineSettings, groups: tuple[CacheGroup, ...], max_context: int, on_cpu: bool, tier_block_bytes: int
) -> SchedulerConfig:
    """Raises ConfigError. The queue has room for what a lost engine had running, beside what may wait anyway."""
    default = _CPU_STEP_TOKENS if on_cpu else _ACCELERATOR_STEP_TOKENS
    resubmitted = 2 * settings.max_running
    ttl_ns = None if settings.kv_ttl_s is None else round(settings.kv_ttl_s * 1e9)
    return SchedulerConfig(
        groups,
        block_size=settings.block_size,
        max_running=settings.max_running,
        max_step_tokens=settings.max_step_tokens or max(default, settings.max_running),
        max_context=max_context,
        max_queued_requests=settings.max_queued_requests + resubmitted,
        max_queued_tokens=settings.max_queued_tokens + resubmitted * max_context,
        prefix_caching=settings.prefix_caching,
        batching=settings.batching,
        reservation=settings.reservation,
        speculation=settings.speculation,
        tiers=tuple(Tier(t.name, t.size_bytes // tier_block_bytes, ttl_ns) for t in settings.kv_tiers),
        kv_ttl_ns=ttl_ns,
    )
