"""How an answer can end. Only `ok` enters the latency figures."""

from __future__ import annotations

from typing import Literal

Outcome = Literal[
    "ok",
    "refused",
    "http_error",
    "error_in_answer",
    "empty",
    "cut",
    "truncated",
    "duplicated",
    "malformed",
    "not_streamed",
    "timeout",
    "reset",
    "unreachable",
    "unsent",
    "interrupted",
]

MEANING: dict[Outcome, str] = {
    "ok": "a whole answer",
    "refused": "status 429 or 503, after as many retries as were allowed",
    "http_error": "any other status that is not 200",
    "error_in_answer": "status 200 with an error in the body or in the stream",
    "empty": "a stream that ended properly without a single character",
    "cut": "the stream ended without its finish reason, its [DONE] or its last bytes",
    "truncated": "ended by `length` before the length that was asked for",
    "duplicated": "chunks that came twice, text after the end, or more text than was asked for",
    "malformed": "not what the API says: no events, no JSON, the wrong shape, or without bound",
    "not_streamed": "a whole answer at once though a stream was asked for",
    "timeout": "a deadline passed: connecting, first text, silence, or all of it",
    "reset": "the connection broke",
    "unreachable": "no connection",
    "unsent": "the load generator had too much in flight, or no socket left, to send it",
    "interrupted": "given up when the run was stopped",
}

NOT_FAILED: frozenset[Outcome] = frozenset({"ok", "unsent", "interrupted"})
"""The rest are the server's failures."""
