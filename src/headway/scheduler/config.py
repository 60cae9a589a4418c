"""What the brain is told once: its blocks, its budgets, its policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


class ConfigError(ValueError):
    """A setting that contradicts another; the text names both."""


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers whose cache grows alike. `window` counts tokens a position sees; `state` needs one block a sequence."""

    kind: Literal["full", "window", "state"]
    num_blocks: int
    window: int = 0


@dataclass(frozen=True, slots=True)
class Tier:
    """A slower memory below the device's. A block of it keeps the KV of one block of tokens, for all cache groups."""

    name: str
    num_blocks: int
    ttl_ns: int | None = None
    """What nobody used for longer goes. None: only what was used last stays, as far as there is room."""
    latency_ns: int = 0
    block_ns: int = 0
    """How long a load is expected to take: the latency, and this for each block."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafts by prompt lookup. Depth follows the load: the step's drafted tokens are shared by the running rows."""

    max_depth: int = 4
    max_step_drafts: int = 32
    ngram: int = 3
    lookback: int = 4096
    """How many of a row's last tokens are searched: bounds the cost of a step."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    groups: tuple[CacheGroup, ...]
    block_size: int = 16
    max_running: int = 256
    max_step_tokens: int = 2048
    max_context: int = 8192
    max_queued_requests: int = 4096
    max_queued_tokens: int = 4_000_000
    prefix_caching: bool = True
    token_ids: bool = True
    """False in simulation: requests carry lengths and block keys only."""
    late_blocks: bool = False
    """The body reads no block tables: the blocks of repeated steps are found at their commit, so that a jump may cross
    block borders, and plans name neither table entries nor rows with one prefix."""
    batching: Literal["continuous", "static"] = "continuous"
    """Static: a batch takes whoever waits, over as many steps as prompts need, until seats or blocks are full; then
    nobody else boards before it has ended."""
    reservation: Literal["demand", "worst_case"] = "demand"
    speculation: Speculation | None = None
    max_sessions: int = 1024
    """Hash chains kept for the next turn of a session."""
    transfer_timeout_ns: int = 2_000_000_000
    tiers: tuple[Tier, ...] = ()
    """Nearest first. Finished sequences' blocks are copied down, and loaded again where the device has lost them."""
    prompt_token_ns: int | None = None
    """How long computing a prompt's token is expected to take: what is computed sooner than loaded is not loaded. None:
    not known, whatever a tier has is loaded."""
    kv_ttl_ns: int | None = None
    """On the device: blocks that nobody held for longer are given up, though there may be room."""

    def __post_init__(self) -> None:
        if not self.groups:
            raise ConfigError("groups: at least one cache group is needed")
        if self.block_size < 1 or self.block_size & (self.block_size - 1):
            raise ConfigError(f"block_size must be a power of two, not {self.block_size}")
        if self.max_running < 1:
            raise ConfigError(f"max_running must be at least 1, not {self.max_running}")
        for name, least in (("max_context", 1), ("max_sessions", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.max_step_tokens < self.max_running:
            raise ConfigError(
                f"max_step_tokens ({self.max_step_tokens}) must be at least max_running ({self.max_running}), "
                "or running decodes could not all ride in one step"
            )
        if self.speculation is not None and not self.token_ids:
            raise ConfigError("speculation by prompt lookup needs token_ids")
        if self.kv_ttl_ns is not None and self.kv_ttl_ns < 0:
            raise ConfigError(f"kv_ttl_ns must not be negative, is {self.kv_ttl_ns}")
        self._check_tiers()
        for group in self.groups:
            if group.num_blocks < 1:
                raise ConfigError(f"{group.kind} group: num_blocks must be at least 1, not {group.num_blocks}")
            if (group.kind == "window") != (group.window > 0):
                raise ConfigError(f"{group.kind} group: window must be positive for a window group and 0 otherwise")

    def _check_tiers(self) -> None:
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise ConfigError(f"kv_tier: each needs a name of its own, not {', '.join(names)}")
        for tier in self.tiers:
            if not tier.name:
                raise ConfigError("kv_tier: a tier needs a name")
            if tier.num_blocks < 1:
                raise ConfigError(f"kv_tier {tier.name}: num_blocks must be at least 1, not {tier.num_blocks}")
            if tier.ttl_ns is not None and tier.ttl_ns < 0:
                raise ConfigError(f"kv_tier {tier.name}: ttl_ns must not be negative, is {tier.ttl_ns}")
