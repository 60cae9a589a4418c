"""What one request cost: every step's time is divided among its rows so that the shares add up to the step exactly."""

from __future__ import annotations

import msgspec


class Receipt(msgspec.Struct, frozen=True):
    """Durations in nanoseconds, counts in tokens. Prefill time includes recomputing after a preemption."""

    queue_ns: int = 0
    """From arrival to the first step it rode in."""
    prefill_ns: int = 0
    """From then to its first token."""
    decode_ns: int = 0
    """From the first token to the last."""
    device_share_ns: int = 0
    """Its share, by tokens, of the device time of its steps."""
    host_share_ns: int = 0
    """Its share of what those steps took beside device time: planning, transport, commit."""
    steps: int = 0
    tokens_computed: int = 0
    tokens_reused: int = 0
    tokens_drafted: int = 0
    tokens_accepted: int = 0
    tokens_generated: int = 0
    preemptions: int = 0

    @property
    def ttft_ns(self) -> int:
        return self.queue_ns + self.prefill_ns

    @property
    def tpot_ns(self) -> float:
        """Mean over the request, first token left out; 0 for fewer than two tokens."""
        return self.decode_ns / (self.tokens_generated - 1) if self.tokens_generated > 1 else 0.0
