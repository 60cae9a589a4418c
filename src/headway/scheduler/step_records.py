"""What a step log holds: a record for every call of the brain and for what it decided. JSON lines.

Times are integer nanoseconds of one clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
import numpy as np

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Ints, StepOutcome, StepPlan, WakeAt
from headway.scheduler.facts import AnswerKeys, Fact, TierHolds, TierLost
from headway.scheduler.receipt import Receipt
from headway.scheduler.request import FinishReason, Request, Sampling

VERSION = 2
"""Of the records and of the decisions: what replays to the byte. A brain that decides otherwise counts it up."""
# Numbers that 64 bits hold, even when some are added up.
Ns = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


class Record(msgspec.Struct, frozen=True, tag_field="event", tag=str.lower):
    pass


class Header(Record, frozen=True):
    version: int
    config: SchedulerConfig
    headway: str = ""
    body: dict[str, str] = {}
    """What ran it: model, dtype, device, library versions."""
    cost_model: str | None = None
    """Digest of the cost model that decisions used, if any."""


class Add(Record, frozen=True):
    now_ns: Ns
    id: str
    num_prompt_tokens: Whole
    max_tokens: Whole
    tokens: list[Int32] | None
    num_tokens: Whole
    block_keys: list[str]
    stop_token_ids: tuple[Int32, ...]
    priority: Whole
    session: str | None
    salt: str
    deadline_ns: Whole | None
    sampling: Sampling
    refused: str | None = None


class Finish(Record, frozen=True):
    now_ns: Ns
    id: str
    reason: FinishReason


class Arrived(Record, frozen=True):
    now_ns: Ns
    transfer: Whole
    ok: bool


class Tell(Record, frozen=True):
    keys: list[str]
    tier: str | None = None
    request_id: str | None = None
    """With a tier: it holds the keys. With a request: they are its answer's. With neither: they were lost."""


class Plan(Record, frozen=True):
    """`digest` is None where the answer was `wake_ns` or nothing."""

    now_ns: Ns
    number: Whole | None = None
    digest: str | None = None
    rows: Whole = 0
    tokens: Whole = 0
    wake_ns: Whole | None = None


class Commit(Record, frozen=True):
    now_ns: Ns
    number: Whole
    submitted_ns: Ns
    done_ns: Ns
    device_ns: Ns
    steps: Whole
    token_ids: list[Int32]
    accepted: list[Int32] | None = None
    failed: list[Int32] | None = None
    error: str | None = None


class Ended(Record, frozen=True):
    """A receipt. Follows from the rest of the log; a replay compares it too."""

    id: str
    reason: FinishReason
    receipt: Receipt


AnyRecord = Header | Add | Finish | Arrived | Tell | Plan | Commit | Ended
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyRecord)


class StepLogError(ValueError):
    """A line that is not a record, or a decision that differs; the text names the line."""


def encoded(record: Record) -> bytes:
    """A line."""
    return _encoder.encode(record) + b"\n"


def read(lines: Iterable[bytes]) -> Iterable[tuple[int, AnyRecord]]:
    """Line numbers, from 1, and records. Raises StepLogError."""
    for number, line in enumerate(lines, 1):
        try:
            yield number, _decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise StepLogError(f"line {number}: {error}") from None


# Records of the brain's own words, and back


def add_record(request: Request, now_ns: int, refused: str | None) -> Add:
    return Add(
        now_ns=now_ns,
        id=request.id,
        num_prompt_tokens=request.num_prompt_tokens,
        max_tokens=request.max_tokens,
        tokens=_listed(request.tokens),
        num_tokens=request.num_tokens,
        block_keys=[key.hex() for key in request.block_keys],
        stop_token_ids=request.stop_token_ids,
        priority=request.priority,
        session=request.session,
        salt=request.salt.hex(),
        deadline_ns=request.deadline_ns,
        sampling=request.sampling,
        refused=refused,
    )


def request_of(record: Add) -> Request:
    return Request(
        id=record.id,
        num_prompt_tokens=record.num_prompt_tokens,
        max_tokens=record.max_tokens,
        tokens=None if record.tokens is None else np.array(record.tokens, np.int64),
        num_tokens=record.num_tokens,
        block_keys=tuple(map(bytes.fromhex, record.block_keys)),
        sampling=record.sampling,
        stop_token_ids=record.stop_token_ids,
        priority=record.priority,
        session=record.session,
        salt=bytes.fromhex(record.salt),
        deadline_ns=record.deadline_ns,
    )


def tell_record(fact: Fact) -> Tell:
    tier = fact.tier if isinstance(fact, TierHolds) else None
    request_id = fact.request_id if isinstance(fact, AnswerKeys) else None
    return Tell([key.hex() for key in fact.keys], tier, request_id)


def fact_of(record: Tell) -> Fact:
    keys = tuple(map(bytes.fromhex, record.keys))
    if record.request_id is not None:
        return AnswerKeys(record.request_id, keys)
    return TierLost(keys) if record.tier is None else TierHolds(record.tier, keys)


def plan_record(plan: StepPlan | WakeAt | None, now_ns: int) -> Plan:
    if isinstance(plan, StepPlan):
        return Plan(now_ns, plan.number, plan.digest(), len(plan.slots), int(plan.counts.sum()))
    return Plan(now_ns, wake_ns=plan.time_ns if plan is not None else None)


def commit_record(outcome: StepOutcome, now_ns: int) -> Commit:
    return Commit(
        now_ns,
        outcome.number,
        outcome.submitted_ns,
        outcome.done_ns,
        outcome.device_ns,
        outcome.steps,
        outcome.token_ids.tolist(),
        _listed(outcome.accepted),
        _listed(outcome.failed),
        outcome.error,
    )


def outcome_of(record: Commit) -> StepOutcome:
    return StepOutcome(
        number=record.number,
        token_ids=np.array(record.token_ids, np.int64),
        accepted=None if record.accepted is None else np.array(record.accepted, np.int64),
        steps=record.steps,
        device_ns=record.device_ns,
        submitted_ns=record.submitted_ns,
        done_ns=record.done_ns,
        failed=None if record.failed is None else np.array(record.failed, np.int64),
        error=record.error,
    )


def _listed(array: Ints | None) -> list[int] | None:
    return None if array is None else array.tolist()
