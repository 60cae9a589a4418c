"""Every bound on what a client may send, hold or wait for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Stated by the request schema, so the same for every server."""

    messages: int = 4096
    prompts: int = 128
    n: int = 128
    sequences: int = 256
    """Prompts times n."""
    stop_strings: int = 16
    stop_chars: int = 512
    stop_token_ids: int = 64
    logit_bias: int = 1024
    top_logprobs: int = 20
    salt_chars: int = 1024
    session_chars: int = 256
    priority: int = 1000
    """From minus this to this."""


SCHEMA = SchemaLimits()


@dataclass(frozen=True, slots=True)
class Limits:
    # What a client may send, beside what the schema says.
    header_bytes: int = 16 * 1024
    """Request line and headers together."""
    headers: int = 100
    body_bytes: int = 8 * 1024 * 1024
    prompt_bytes: int = 4 * 1024 * 1024
    """Text of one prompt, rendered."""

    # What all of them together may hold.
    connections: int = 4096
    """Fewer, if the process may not open as many."""
    requests: int = 2048
    """Being answered at one time."""
    held_bytes: int = 256 * 1024 * 1024
    """Of the requests being answered: bodies, log-probabilities, whole answers."""
    inline_bytes: int = 4096
    """Text up to here is rendered and tokenised on the event loop, more of it in a thread."""

    # How long they may take.
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    keep_alive_s: float = 75.0
    """Idle time of a connection between requests."""
    write_stall_s: float = 30.0
    """A client that lets the buffers stay full for this long is cut off."""
    ping_s: float = 15.0
    """A stream with nothing to say sends a comment this often."""
    drain_s: float = 30.0
    """What running requests get when the server is asked to stop."""
