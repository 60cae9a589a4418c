"""The engine as the HTTP side sees it: submit a sequence, read what it draws, cancel it or end it early.

    EngineError
    ├── Refusal              nothing was computed
    │   ├── Overloaded       queues are full, or no engine is up: try again after `retry_after_s`
    │   ├── NeverFits        it alone needs more than the engine has
    │   └── InvalidRequest   the engine found a value it can't work with
    ├── Expired              its deadline passed while it was queued
    └── EngineFailed         it was lost (a step failed, the engine died too often): the text is for the log only

Whoever implements `EngineClient` survives the death of an engine process: a generation goes on elsewhere with prompt
plus emitted tokens, and the reader sees only a pause.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from headway.engine.messages import Ended, EngineStats, Ready, Submit
from headway.scheduler.contract import RowLogprobs
from headway.scheduler.request import FinishReason


class EngineError(Exception):
    """Something kept a request from its regular end."""


class Refusal(EngineError):
    """The request was not taken; nothing was computed."""


class Overloaded(Refusal):
    """The queues are full, or no engine is up at the moment."""

    def __init__(self, reason: str, retry_after_s: float = 1.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class NeverFits(Refusal):
    """The request alone needs more than the engine has; the text holds the numbers."""


class InvalidRequest(Refusal):
    """The engine found a value that it can't work with; the text names it."""


class Expired(EngineError):
    """The deadline passed while the request was queued."""


class EngineFailed(EngineError):
    """The request was lost. The text may hold internals, so it is for the log and never for the client."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What one sequence drew since the last delta: no tokens at all, one, or several.

    A stop token that ended the sequence is among `token_ids`. Entries of `logprobs.drawn` match `token_ids` one by one;
    `logprobs.prompt` comes in pieces, in order, before or with the first drawn token.
    """

    token_ids: list[int]
    logprobs: RowLogprobs | None = None
    ended: Ended | None = None
    """Only on the last delta; its reason is `stop`, `length` or `cancelled`."""


class Generation(Protocol):
    """One submitted sequence. Iterated once, by one task."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """Ends after the delta with `ended`. Raises Refusal, Expired or EngineFailed instead of a regular end."""
        ...

    def cancel(self) -> None:
        """The client went away: free everything. Harmless at any time, also twice; no delta needs to come after it."""
        ...

    def finish(self, reason: FinishReason) -> None:
        """The text is complete (a stop string was found). The delta with `ended`, hence the receipt, still comes."""
        ...


class EngineClient(Protocol):
    """Everything that the HTTP side may ask of its engines."""

    @property
    def info(self) -> Ready:
        """What the engine said of itself when it was ready; valid once `is_ready` was true."""
        ...

    @property
    def stats(self) -> EngineStats:
        """The latest known; totals never go back, also when an engine was restarted."""
        ...

    @property
    def is_ready(self) -> bool: ...

    @property
    def restarts_total(self) -> int: ...

    def generate(self, submit: Submit) -> Generation:
        """Raises Overloaded at once when the queue limits are reached or no engine is up."""
        ...
