"""The step log: everything the brain was told, in order, and the digest of everything it decided. JSON lines.

A header comes first, then one record a call. Times are integer nanoseconds of one clock. A log is complete: `replay`
feeds it to a fresh brain and compares every decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec
import numpy as np

from headway.scheduler.commit import Committed
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Ints, StepOutcome, StepPlan, WakeAt
from headway.scheduler.facts import AnswerKeys, Fact, TierHolds, TierLost
from headway.scheduler.receipt import Receipt
from headway.scheduler.refusal import Refusal
from headway.scheduler.request import FinishReason, Request, Sampling
from headway.scheduler.scheduler import Scheduler, SchedulerStats
from headway.scheduler.sequence import Finished

VERSION = 1
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


class Recorder:
    """A scheduler that writes down every call. Same methods, same results."""

    def __init__(self, scheduler: Scheduler, write: Callable[[bytes], Any], header: Header) -> None:
        self._scheduler = scheduler
        self._write_line = write
        self._write(header)

    def _write(self, record: Record) -> None:
        self._write_line(_encoder.encode(record) + b"\n")

    def add(self, request: Request, now_ns: int) -> None:
        refused = None
        try:
            self._scheduler.add(request, now_ns)
        except Refusal as refusal:
            refused = refusal.kind
            raise
        finally:
            self._write(_add_record(request, now_ns, refused))

    def cancel(self, request_id: str, now_ns: int) -> bool:
        return self.finish(request_id, "cancelled", now_ns)

    def finish(self, request_id: str, reason: FinishReason, now_ns: int) -> bool:
        self._write(Finish(now_ns, request_id, reason))
        return self._scheduler.finish(request_id, reason, now_ns)

    def arrived(self, transfer: int, ok: bool, now_ns: int) -> None:
        self._write(Arrived(now_ns, transfer, ok))
        self._scheduler.arrived(transfer, ok, now_ns)

    def tell(self, fact: Fact) -> None:
        tier = fact.tier if isinstance(fact, TierHolds) else None
        request_id = fact.request_id if isinstance(fact, AnswerKeys) else None
        self._write(Tell([key.hex() for key in fact.keys], tier, request_id))
        self._scheduler.tell(fact)

    def plan(self, now_ns: int) -> StepPlan | WakeAt | None:
        plan = self._scheduler.plan(now_ns)
        self._write(_plan_record(plan, now_ns))
        return plan

    def commit(self, outcome: StepOutcome, now_ns: int) -> Committed:
        self._write(
            Commit(
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
        )
        return self._scheduler.commit(outcome, now_ns)

    def take_ended(self) -> list[Finished]:
        ended = self._scheduler.take_ended()
        for finished in ended:
            self._write(Ended(finished.id, finished.reason, finished.receipt))
        return ended

    def stats(self) -> SchedulerStats:
        return self._scheduler.stats()

    @property
    def is_idle(self) -> bool:
        return self._scheduler.is_idle


def read(lines: Iterable[bytes]) -> Iterable[tuple[int, AnyRecord]]:
    """Line numbers, from 1, and records. Raises StepLogError."""
    for number, line in enumerate(lines, 1):
        try:
            yield number, _decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise StepLogError(f"line {number}: {error}") from None


def replay(
    lines: Iterable[bytes],
    on_plan: Callable[[StepPlan, int], Any] | None = None,
    on_record: Callable[[AnyRecord, Scheduler], Any] | None = None,
) -> tuple[Scheduler, int]:
    """The brain after the log, and its number of steps. `on_plan` sees each plan and its time, `on_record` each record
    behind the header once the brain has it.

    Raises StepLogError at the first decision that differs.
    """
    records = iter(read(lines))
    first = next(records, None)
    if first is None or not isinstance(first[1], Header):
        raise StepLogError("line 1: a step log begins with a header")
    header = first[1]
    if header.version != VERSION:
        raise StepLogError(f"line 1: version {header.version} where this program reads {VERSION}")
    scheduler = _scheduler(header.config)
    ended: dict[str, Finished] = {}
    steps = 0
    for number, record in records:
        try:
            _feed(scheduler, record, number, ended, on_plan)
        except StepLogError:
            raise
        except (ValueError, OverflowError) as error:
            raise StepLogError(f"line {number}: {error}") from None
        if on_record is not None:
            on_record(record, scheduler)
        steps += isinstance(record, Plan) and record.digest is not None
        ended.update((finished.id, finished) for finished in scheduler.take_ended())
    return scheduler, steps


def _scheduler(config: SchedulerConfig) -> Scheduler:
    try:
        return Scheduler(config)
    except (ValueError, OverflowError, MemoryError) as error:
        raise StepLogError(f"line 1: config: {error or 'out of memory'}") from None


def _feed(
    scheduler: Scheduler,
    record: AnyRecord,
    line: int,
    ended: dict[str, Finished],
    on_plan: Callable[[StepPlan, int], Any] | None,
) -> None:
    match record:
        case Add():
            _expect(line, "refusal", record.refused, _add(scheduler, record))
        case Finish():
            scheduler.finish(record.id, record.reason, record.now_ns)
        case Arrived():
            scheduler.arrived(record.transfer, record.ok, record.now_ns)
        case Tell():
            scheduler.tell(_fact(record))
        case Plan():
            plan = scheduler.plan(record.now_ns)
            _expect(line, "plan", record, _plan_record(plan, record.now_ns))
            if on_plan is not None and isinstance(plan, StepPlan):
                on_plan(plan, record.now_ns)
        case Commit():
            scheduler.commit(_outcome(record), record.now_ns)
        case Ended():
            finished = ended.pop(record.id, None)
            replayed = None if finished is None else Ended(finished.id, finished.reason, finished.receipt)
            _expect(line, "receipt", record, replayed)
        case Header():
            raise StepLogError(f"line {line}: a second header")


def _expect(line: int, what: str, logged: object, replayed: object) -> None:
    if logged != replayed:
        raise StepLogError(f"line {line}: {what} differs: logged {logged}, replayed {replayed}")


def _add_record(request: Request, now_ns: int, refused: str | None) -> Add:
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


def _fact(record: Tell) -> Fact:
    keys = tuple(map(bytes.fromhex, record.keys))
    if record.request_id is not None:
        return AnswerKeys(record.request_id, keys)
    return TierLost(keys) if record.tier is None else TierHolds(record.tier, keys)


def _add(scheduler: Scheduler, record: Add) -> str | None:
    request = Request(
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
    try:
        scheduler.add(request, record.now_ns)
    except Refusal as refusal:
        return refusal.kind
    return None


def _plan_record(plan: StepPlan | WakeAt | None, now_ns: int) -> Plan:
    if isinstance(plan, StepPlan):
        return Plan(now_ns, plan.number, plan.digest(), len(plan.slots), int(plan.counts.sum()))
    return Plan(now_ns, wake_ns=plan.time_ns if plan is not None else None)


def _outcome(record: Commit) -> StepOutcome:
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
