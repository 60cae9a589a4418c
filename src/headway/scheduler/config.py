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
    block borders, and no rows are grouped by their prefix."""
    batching: Literal["continuous", "static"] = "continuous"
    reservation: Literal["demand", "worst_case"] = "demand"
    speculation: Speculation | None = None
    max_sessions: int = 1024
    """Hash chains kept for the next turn of a session."""
    transfer_timeout_ns: int = 2_000_000_000

    def __post_init__(self) -> None:
        if not self.groups:
            raise ConfigError("groups: at least one cache group is needed")
        if self.block_size < 1 or self.block_size & (self.block_size - 1):
            raise ConfigError(f"block_size must be a power of two, not {self.block_size}")
        if self.max_running < 1:
            raise ConfigError(f"max_running must be at least 1, not {self.max_running}")
        if self.max_step_tokens < self.max_running:
            raise ConfigError(
                f"max_step_tokens ({self.max_step_tokens}) must be at least max_running ({self.max_running}), "
                "or running decodes could not all ride in one step"
            )
        if self.speculation is not None and not self.token_ids:
            raise ConfigError("speculation by prompt lookup needs token_ids")
        for group in self.groups:
            if group.num_blocks < 1:
                raise ConfigError(f"{group.kind} group: num_blocks must be at least 1, not {group.num_blocks}")
            if (group.kind == "window") != (group.window > 0):
                raise ConfigError(f"{group.kind} group: window must be positive for a window group and 0 otherwise")
