"""What a call has been through, at every replica that worked on it, told as one receipt."""

from __future__ import annotations

import msgspec

from headway.scheduler.receipt import Receipt

_SUMMED = (
    "device_share_ns",
    "host_share_ns",
    "steps",
    "tokens_computed",
    "tokens_drafted",
    "tokens_accepted",
    "preemptions",
)


class Course(msgspec.Struct):
    """Law: durations are those between the call's own events, shares and counts the sums of all parts."""

    arrival_ns: int
    scheduled_ns: int | None = None
    first_token_ns: int | None = None
    tokens_generated: int = 0
    charges: dict[int, int] = {}
    """Nanoseconds of its steps that it pays for, by pool."""
    _sum: Receipt | None = None

    def add(self, part: Receipt, added_ns: int, pool: int) -> None:
        """`added_ns`: when the replica got it, with all tokens that parts before had generated."""
        if self.scheduled_ns is None and part.steps:
            self.scheduled_ns = added_ns + part.queue_ns
        if self.first_token_ns is None and part.tokens_generated:
            self.first_token_ns = added_ns + part.ttft_ns
        self.tokens_generated = max(self.tokens_generated, part.tokens_generated)
        self.charges[pool] = self.charges.get(pool, 0) + part.device_share_ns + part.host_share_ns
        before = self._sum
        if before is None:
            self._sum = part
            return
        summed = {name: getattr(before, name) + getattr(part, name) for name in _SUMMED}
        reused = before.tokens_reused if before.steps else part.tokens_reused
        self._sum = msgspec.structs.replace(before, **summed, tokens_reused=reused)

    def receipt(self, end_ns: int) -> Receipt:
        """As of its end, `end_ns`. What was reused is what the first of its replicas found."""
        if self._sum is None:
            return Receipt(queue_ns=end_ns - self.arrival_ns)
        scheduled_ns = end_ns if self.scheduled_ns is None else self.scheduled_ns
        first_ns = end_ns if self.first_token_ns is None else self.first_token_ns
        return msgspec.structs.replace(
            self._sum,
            queue_ns=scheduled_ns - self.arrival_ns,
            prefill_ns=first_ns - scheduled_ns,
            decode_ns=end_ns - first_ns,
            tokens_generated=self.tokens_generated,
        )
