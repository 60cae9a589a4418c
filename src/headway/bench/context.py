"""The longest sequence that the server takes, and requests that are longer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from headway.bench.record import Record

_FIELDS = ("max_model_len", "context_length", "max_context_length", "context_window")
"""Of an entry of /v1/models: Headway's, vLLM's and SGLang's name first, then what others call it."""
_STATUSES = (400, 413, 422)
_COMPLAINT = re.compile(r"context|too long|max_model_len|maximum.{0,20} length|n_ctx", re.IGNORECASE)


def context_of(card: Mapping[str, Any]) -> int | None:
    """Tokens, prompt and output together; None: the server does not say."""
    told = (card.get(field) for field in _FIELDS)
    return next((n for n in told if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)


def too_long(records: Iterable[Record], context: int | None) -> list[str]:
    """A note if the server refused requests for their length: what would help."""
    refused = [record for record in records if record.status in _STATUSES and _is_long(record, context)]
    if not refused:
        return []
    least = min(_tokens(record) for record in refused)
    limit = f"its context is {context:,}" if context else f"it says: {refused[0].error}"
    most = str(context) if context else "N"
    who = f"{len(refused)} requests were too long for the server, of {least:,} tokens or more with their output"
    return [f"{who} ({limit}): --max-context {most} leaves out what is longer"]


def _is_long(record: Record, context: int | None) -> bool:
    return _tokens(record) > context if context else bool(_COMPLAINT.search(record.error))


def _tokens(record: Record) -> int:
    return record.asked_input_tokens + record.asked_output_tokens
