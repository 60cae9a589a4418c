"""What became of one call: the row of the per-request table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headway.scheduler.receipt import Receipt
from headway.simulator.price import added
from headway.workload.call import Call


class Record(msgspec.Struct, frozen=True):
    """Times in nanoseconds from the start of the run, at the client. The receipt is the fleet's view."""

    call: Call
    replica: int
    arrival_ns: int
    end_ns: int
    reason: str
    """`stop`: it got its whole answer; `length`: it was cut at the token limit; or why it was refused."""
    receipt: Receipt
    refusal: str = ""
    """In the scheduler's words."""
    way_ns: int = 0
    """From the client to the fleet, and from there to the client."""
    resent: int = 0
    """How often it was sent again because its replica failed."""
    charges: tuple[tuple[int, int], ...] = ()
    """(pool, nanoseconds): its share of steps, by the pool that ran them; none where there is but one pool."""
    prefill_replica: int | None = None
    """That handed it over to `replica`, or gave it its only token; None: one that does both had it."""
    handover_ns: int | None = None
    """Of its decode time: until `replica` took it up, which is the way of its KV and the wait for a seat there."""

    @property
    def charged_ns(self) -> tuple[tuple[int, int], ...]:
        """By pool."""
        return self.charges or ((0, self.receipt.device_share_ns + self.receipt.host_share_ns),)

    @property
    def ok(self) -> bool:
        return self.reason == "stop"

    @property
    def refused(self) -> bool:
        return self.reason not in ("stop", "length")

    @property
    def ttft_ns(self) -> int:
        return self.receipt.ttft_ns + 2 * self.way_ns

    @property
    def e2e_ns(self) -> int:
        return self.end_ns - self.arrival_ns


class Work(NamedTuple):
    """What a call needed: its share of its steps' work. KV counts what is read and written."""

    flops: int = 0
    weight_bytes: int = 0
    kv_bytes: int = 0
    bound: str | None = None
    """Of most of its share of their time."""
    energy_nj: int | None = 0
    """Its share of what the chips took. None: one of its replicas publishes no power."""
    work_nj: int | None = 0
    """What FLOPs and bytes account for in it. None: at one of its replicas nobody knows."""


COLUMNS = (
    "id",
    "session",
    "turn",
    "replica",
    "prefill_replica",
    "reason",
    "arrival_s",
    "queue_s",
    "prefill_s",
    "decode_s",
    "handover_s",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "network_s",
    "input_tokens",
    "output_tokens",
    "reused_tokens",
    "computed_tokens",
    "steps",
    "preemptions",
    "device_share_ns",
    "host_share_ns",
    "energy_j",
    "work_j",
    "cost_usd",
    "flops",
    "weight_bytes",
    "kv_bytes",
    "bound",
)
Cell = str | int | float | None


def row(record: Record, usd_per_s: Sequence[float | None], work: Work) -> tuple[Cell, ...]:
    """In the order of COLUMNS. What a replica of each pool costs; None: its chip publishes nothing."""
    r, call = record.receipt, record.call
    return (
        call.id,
        call.session,
        call.turn,
        record.replica,
        record.prefill_replica,
        record.reason,
        record.arrival_ns / 1e9,
        r.queue_ns / 1e9,
        r.prefill_ns / 1e9,
        r.decode_ns / 1e9,
        None if record.handover_ns is None else record.handover_ns / 1e9,
        record.ttft_ns / 1e9,
        r.tpot_ns / 1e9,
        record.e2e_ns / 1e9,
        2 * record.way_ns / 1e9,
        call.num_input_tokens,
        r.tokens_generated,
        r.tokens_reused,
        r.tokens_computed,
        r.steps,
        r.preemptions,
        r.device_share_ns,
        r.host_share_ns,
        _joules(work.energy_nj),
        _joules(work.work_nj),
        _charged(record, usd_per_s),
        work.flops,
        work.weight_bytes,
        work.kv_bytes,
        work.bound,
    )


def _joules(energy_nj: int | None) -> float | None:
    return None if energy_nj is None else energy_nj / 1e9


def _charged(record: Record, per_s: Sequence[float | None]) -> float | None:
    return added(None if (each := per_s[pool]) is None else ns / 1e9 * each for pool, ns in record.charged_ns)
