"""What was seen of one request: everything that the figures are made from."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headway.bench.outcome import Outcome

CountedBy = Literal["usage", "text", "chunks", "none"]
"""Who counted the output: the server, a tokenizer over the received text, or (neither at hand) chunks with text."""


class Record(msgspec.Struct, kw_only=True):
    """Times are seconds; `scheduled_s` and `sent_s` since the start of the run, the rest since `sent_s`."""

    id: str
    session: str | None
    turn: int
    outcome: Outcome
    error: str = ""
    status: int | None = None
    retries: int = 0
    retry_after_s: float | None = None
    asked_input_tokens: int
    asked_output_tokens: int
    scheduled_s: float
    sent_s: float
    """When the request was handed to the network, of the first try; a new connection and retries are part of what
    follows."""
    connect_s: float | None = None
    """None: a connection was at hand."""
    headers_s: float | None = None
    arrivals_s: list[float] = []
    """Arrivals of text."""
    end_s: float | None = None
    """When the finish reason came."""
    closed_s: float
    """When the exchange was over."""
    finish_reason: str | None = None
    num_chunks: int = 0
    """Chunks that carried text."""
    text: str = ""
    """Dropped when its tokens have been counted."""
    usage_prompt_tokens: int | None = None
    usage_output_tokens: int | None = None
    cached_tokens: int | None = None
    text_tokens: int | None = None
    """Tokens in the received text, by a tokenizer."""
    output_tokens: int = 0
    """What the figures use."""
    counted_by: CountedBy = "none"
    usage_disagrees: bool = False
    receipt: dict[str, Any] | None = None

    @property
    def lateness_s(self) -> float:
        """How much later than scheduled it went out: the load generator's own fault."""
        return self.sent_s - self.scheduled_s
