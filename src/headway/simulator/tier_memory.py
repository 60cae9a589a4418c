"""The memories below a replica that keep KV: how much they hold, how fast, for how long, at what price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.arithmetic.cache import cache_terms
from headway.scheduler.config import ConfigError, Tier

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.shape import ModelShape

MAX_BLOCKS = 1 << 22
"""Of one tier: what the index of it may cost. 67 million tokens in blocks of 16."""


@dataclass(frozen=True, slots=True)
class TierMemory:
    """A tier below one replica, for all of its chips together. Each direction of its link has the full bandwidth."""

    name: str
    size_bytes: float
    bytes_per_s: float
    latency_s: float = 0.0
    ttl_s: float | None = None
    usd_per_hour: float | None = None
    """Of holding all of it. None: not known."""
    is_exact: bool = False
    """All of it or an error; else no more than MAX_BLOCKS of it."""

    def tier(self, block_bytes: float) -> Tier:
        """As the scheduler knows it. Raises ConfigError."""
        ttl_ns = None if self.ttl_s is None else round(self.ttl_s * 1e9)
        num_blocks = int(self.size_bytes / block_bytes)
        if not num_blocks:
            least = f"at least one block of KV, {block_bytes / 1e6:.4g} MB"
            raise ConfigError(f"kv_tier {self.name}: must have room for {least}, not {self.size_bytes / 1e6:.4g} MB")
        if num_blocks > MAX_BLOCKS:
            if self.is_exact:
                most = f"{MAX_BLOCKS * block_bytes / 1e9:.4g} GB, {MAX_BLOCKS:,} blocks"
                raise ConfigError(f"kv_tier {self.name}: at most {most}, not {self.size_bytes / 1e9:.4g} GB")
            num_blocks = MAX_BLOCKS
        block_ns = round(block_bytes / self.bytes_per_s * 1e9)
        return Tier(self.name, num_blocks, ttl_ns, round(self.latency_s * 1e9), block_ns)


def kv_block_bytes(model: ModelShape, precision: Precision, block_size: int) -> float:
    """Of all layers whose cache grows, once, on however many chips they lie."""
    terms = [term for term in cache_terms(model, precision) if term.every]
    return sum(t.layers * t.values * t.format.bits_per_value / 8 * block_size / t.every for t in terms)
