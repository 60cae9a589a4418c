"""What the brain can be told beside requests and outcomes: `Scheduler.tell`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TierHolds:
    """These keys can be loaded from `tier`, for every cache group."""

    tier: str
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TierLost:
    """These keys cannot be loaded any more."""

    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AnswerKeys:
    """Where there are no token ids: the block keys of a request's prompt and answer together, told when it ends.

    Without them generated blocks have no key, and the session's next turn would find only the prompt.
    """

    request_id: str
    keys: tuple[bytes, ...]


Fact = TierHolds | TierLost | AnswerKeys
