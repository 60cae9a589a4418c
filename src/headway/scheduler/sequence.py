"""What the brain keeps of a request while it lives."""

from __future__ import annotations

from enum import Enum, auto

import msgspec
import numpy as np
import numpy.typing as npt

from headway.scheduler.receipt import Receipt
from headway.scheduler.request import FinishReason, Request


class Status(Enum):
    """WAITING → RUNNING → ENDED, with the detours below; every request reaches ENDED exactly once."""

    WAITING = auto()
    """Queued."""
    PARKED = auto()
    """Waits for blocks that another row is computing."""
    LOADING = auto()
    """Waits for blocks from a slower tier."""
    RUNNING = auto()
    """Owns a slot."""
    PREEMPTING = auto()
    """Gives its slot back when the plans that use it are committed, then queues again."""
    ENDING = auto()
    """Has its finish reason; gives its slot back when the plans that use it are committed."""
    ENDED = auto()


QUEUED = (Status.WAITING, Status.PARKED, Status.LOADING)


class Sequence(msgspec.Struct, eq=False):
    request: Request
    order: int
    """Arrival number: breaks ties of priority, also after a preemption."""
    arrival_ns: int
    tokens: npt.NDArray[np.int32]
    """All known tokens while it has no slot; in a slot the row holds them."""
    num_tokens: int
    keys: list[bytes]
    """Block keys of the full blocks hashed so far."""
    status: Status = Status.WAITING
    slot: int = -1
    reason: FinishReason | None = None
    error: str | None = None
    reused: int = 0
    """Prompt tokens whose KV was found at the first admission."""
    published: int = 0
    """Leading blocks that are findable, or that need not be."""
    inherited_priority: int | None = None
    """Best priority among those who wait for its blocks."""
    waiters: list[tuple[int, Sequence]] = []
    """(number of leading blocks needed, who needs them)."""
    owner: Sequence | None = None
    """Whose blocks it waits for."""
    may_load: bool = True
    failed_tiers: frozenset[str] = frozenset()
    """Whose loads failed it: they are not asked again."""
    load_start: int = -1
    """The farthest block that a load for it began at."""
    load_tries: int = 0
    """Loads since that one, itself included."""
    scheduled_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    preemptions: int = 0
    charged: Receipt = Receipt()
    """Shares of its steps, from the slots that it has left."""

    @property
    def priority(self) -> int:
        own = self.request.priority
        return own if self.inherited_priority is None else min(own, self.inherited_priority)

    @property
    def rank(self) -> tuple[int, int]:
        """Who goes first; the greatest is the first to be preempted."""
        return self.priority, self.order

    def receipt(self, now_ns: int) -> Receipt:
        """As of its end. Where it ended without a last token of its own, that is `now_ns`."""
        scheduled = self.scheduled_ns if self.scheduled_ns is not None else now_ns
        first = self.first_token_ns if self.first_token_ns is not None else now_ns
        last = self.last_token_ns if self.last_token_ns is not None else now_ns
        c = self.charged
        return Receipt(
            queue_ns=scheduled - self.arrival_ns,
            prefill_ns=first - scheduled if self.scheduled_ns is not None else 0,
            decode_ns=last - first,
            device_share_ns=c.device_share_ns,
            host_share_ns=c.host_share_ns,
            steps=c.steps,
            tokens_computed=c.tokens_computed,
            tokens_reused=self.reused,
            tokens_drafted=c.tokens_drafted,
            tokens_accepted=c.tokens_accepted,
            tokens_generated=self.num_tokens - self.request.num_prompt_tokens,
            preemptions=self.preemptions,
        )


class Finished(msgspec.Struct, frozen=True):
    """The end of a request. Its tokens were handed out before."""

    id: str
    reason: FinishReason
    receipt: Receipt
    error: str | None = None
