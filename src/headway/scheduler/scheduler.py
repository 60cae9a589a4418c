"""The brain: events in, decisions out. `plan` says what runs in the next step, `commit` takes what it gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.scheduler.admission import Admission
from headway.scheduler.assembly import Assembly
from headway.scheduler.block_keys import BlockHasher, SessionChains
from headway.scheduler.claims import Claims
from headway.scheduler.commit import Committed, OutcomeError, check_outcome, commit_decodes, commit_rows, fail_rows
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Ints, StepOutcome, StepPlan, WakeAt
from headway.scheduler.decoding import Decoding
from headway.scheduler.endings import Endings
from headway.scheduler.facts import AnswerKeys, Fact
from headway.scheduler.kv_cache import KVCache
from headway.scheduler.laws import check_laws
from headway.scheduler.memory_use import MemoryUse, memory_use
from headway.scheduler.prompts import Prompts
from headway.scheduler.refusal import Invalid
from headway.scheduler.request import FinishReason, Request
from headway.scheduler.request_check import check_request
from headway.scheduler.running import InFlight, Running
from headway.scheduler.sequence import Finished, Sequence, Status
from headway.scheduler.tiers import Tiers
from headway.scheduler.transfers import Transfers
from headway.scheduler.waiting import WaitingQueue


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """Gauges are as of now; totals only grow."""

    num_running: int
    num_waiting: int
    blocks_used: int
    blocks_cached: int
    blocks_total: int
    tier_blocks: int
    """In all slower tiers together, free for others to push out."""
    steps_total: int
    preemptions_total: int
    prefix_queries_total: int
    prefix_hits_total: int
    tokens_computed_total: int
    drafts_total: int
    drafts_accepted_total: int
    blocks_loaded_total: int
    """That came back from slower tiers."""


class Scheduler:
    def __init__(self, config: SchedulerConfig, hash_key: bytes = b"") -> None:
        self.config = config
        hasher = BlockHasher(config.block_size, hash_key)
        self._sessions = SessionChains(hasher, config.max_sessions)
        self._cache = KVCache(config)
        self._claims = Claims()
        self._queue = WaitingQueue(config.max_queued_requests, config.max_queued_tokens)
        self._running = Running(config, self._cache, self._claims, hasher)
        self._transfers = Transfers(self._cache, Tiers(config.tiers), config.transfer_timeout_ns)
        self._admission = Admission(config, self._queue, self._running, self._claims, self._transfers)
        self._endings = Endings(config, self._queue, self._running, self._claims, self._transfers, self._sessions)
        self._decoding = Decoding(config, self._running, self._endings.preempt)
        self._prompts = Prompts(config, self._running, self._admission, self._endings.preempt)
        self._assembly = Assembly(config, self._running, self._queue, self._transfers)
        self._num_arrived = 0
        self._now_ns = 0
        self._num_steps = 0
        self._tokens_computed = 0
        self._drafts = 0
        self._drafts_accepted = 0

    # Events

    def add(self, request: Request, now_ns: int) -> None:
        """Queues a request. Raises Refusal: NeverFits, QueueFull or Invalid."""
        if request.id in self._endings.alive:
            raise Invalid(f"id: a request {request.id!r} is in progress already")
        check_request(request, self.config, self._cache)
        self._queue.check_room(request.num_tokens)
        tokens = request.tokens.astype(np.int32) if request.tokens is not None else np.zeros(0, np.int32)
        keys: list[bytes] = []
        if self.config.prefix_caching:
            keys = list(request.block_keys)
            if self.config.token_ids:
                keys = self._sessions.keys_for(tokens, request.salt, request.session)
        sequence = Sequence(request, self._num_arrived, now_ns, tokens, request.num_tokens, keys)
        self._num_arrived += 1
        self._endings.alive[request.id] = sequence
        self._queue.enter(sequence)

    def cancel(self, request_id: str, now_ns: int) -> bool:
        """Nobody wants the rest. False if there is no such request (any more)."""
        return self.finish(request_id, "cancelled", now_ns)

    def finish(self, request_id: str, reason: FinishReason, now_ns: int) -> bool:
        """An ending decided outside, such as a stop string. False if there is no such request (any more)."""
        sequence = self._endings.alive.get(request_id)
        if sequence is None or sequence.status is Status.ENDING:
            return False
        self._endings.end(sequence, reason, now_ns)
        return True

    def arrived(self, transfer: int, ok: bool, now_ns: int) -> None:
        """A load ended. Late and unknown ones are welcome."""
        self._pass_time(now_ns)
        sequence = self._transfers.arrived(transfer, ok)
        if sequence is not None:
            self._endings.loaded(sequence)

    def tell(self, fact: Fact) -> None:
        """Facts about ended requests and unknown keys change nothing."""
        if not isinstance(fact, AnswerKeys):
            self._transfers.tell(fact)
            return
        sequence = self._endings.alive.get(fact.request_id)
        if sequence is not None and self.config.prefix_caching and not self.config.token_ids:
            sequence.keys = [*sequence.keys, *fact.keys[len(sequence.keys) :]]

    # Decisions

    def plan(self, now_ns: int) -> StepPlan | WakeAt | None:
        """The next step; or when to ask again; or None: nothing to do until an event comes."""
        self._pass_time(now_ns)
        self._endings.pass_deadlines(now_ns)
        number = self._num_steps
        self._prompts.yield_to_priority(number, now_ns)
        decodes = self._decoding.rows(number)
        budget = self.config.max_step_tokens - decodes.num_tokens
        chunks = self._prompts.chunks(budget, number, now_ns)
        if not len(decodes.slots) and not chunks and not self._transfers.has_new:
            return self._wake_at()
        plan = self._assembly.plan(number, decodes, chunks, self._decoding.prefix_groups(decodes.slots))
        self._running.in_flight.append(InFlight(plan, now_ns, 0 if decodes.drafts else len(decodes.slots)))
        self._num_steps += 1
        return plan

    def commit(self, outcome: StepOutcome, now_ns: int) -> Committed:
        """Takes the outcome of the oldest plan in flight. Raises OutcomeError if it is another's."""
        running = self._running
        if not running.in_flight:
            raise OutcomeError(f"outcome of step {outcome.number} where none was due")
        flight = running.in_flight[0]
        plan = flight.plan
        check_outcome(plan, outcome)
        self._pass_time(now_ns)
        running.in_flight.popleft()
        running.last_committed = plan.number
        self._charge(flight, outcome, now_ns)
        committed = self._apply(flight, outcome, now_ns)
        self._note_first_tokens(committed, now_ns)
        self._publish(plan.slots[flight.num_plain_decodes :])
        self._cache.drop_behind_windows(running.rows, plan.slots)
        for sequence, reason in committed.ended:
            sequence.last_token_ns = now_ns
            self._endings.end(sequence, reason, now_ns)
        self._endings.committed(now_ns)
        return committed

    def take_ended(self) -> list[Finished]:
        """Requests that ended since the last call."""
        return self._endings.take()

    def stats(self) -> SchedulerStats:
        pool = self._cache.pools[0]
        return SchedulerStats(
            num_running=self._running.num,
            num_waiting=self._queue.num_requests,
            blocks_used=pool.num_held,
            blocks_cached=pool.num_cached,
            blocks_total=pool.num_blocks,
            tier_blocks=self._transfers.tiers.num_cached,
            steps_total=self._num_steps,
            preemptions_total=self._endings.preemptions,
            prefix_queries_total=self._admission.prefix_queries,
            prefix_hits_total=self._admission.prefix_hits,
            tokens_computed_total=self._tokens_computed,
            drafts_total=self._drafts,
            drafts_accepted_total=self._drafts_accepted,
            blocks_loaded_total=self._transfers.blocks_loaded.total(),
        )

    @property
    def queued_tokens(self) -> int:
        """Of all requests without a slot."""
        return self._queue.num_tokens

    def memory_use(self, now_ns: int) -> tuple[MemoryUse, ...]:
        """The device, then the tiers."""
        self._pass_time(now_ns)
        return memory_use(self._cache, self._transfers)

    @property
    def is_fresh(self) -> bool:
        """No request has come yet."""
        return not self._num_arrived

    @property
    def is_idle(self) -> bool:
        """No request lives and no plan is in flight."""
        return not self._endings.alive and not self._running.in_flight

    def check(self) -> None:
        """Raises AssertionError where a law of the brain is broken; costs time in proportion to the blocks."""
        check_laws(self._running, self._queue, self._claims, self._transfers, self._endings.alive)

    # Deciding

    def _wake_at(self) -> WakeAt | None:
        times = (self._queue.next_deadline_ns(), self._transfers.next_deadline_ns())
        return WakeAt(min(t for t in times if t is not None)) if any(t is not None for t in times) else None

    # Taking an outcome

    def _charge(self, flight: InFlight, outcome: StepOutcome, now_ns: int) -> None:
        plan, ledger = flight.plan, self._running.ledger
        if not len(plan.slots):
            return
        host_ns = max(0, now_ns - flight.planned_ns - outcome.device_ns)
        if flight.num_plain_decodes == len(plan.slots):
            ledger.charge_decodes(plan.slots, outcome.steps, outcome.device_ns, host_ns)
            self._tokens_computed += len(plan.slots) * outcome.steps
            return
        num_tokens = int(plan.counts.sum())
        ledger.charge(plan.slots, plan.counts, num_tokens, outcome.device_ns, host_ns)
        self._tokens_computed += num_tokens
        if outcome.accepted is not None:
            ledger.note_drafts(plan.slots, plan.drafts, plan.slots[plan.samples], outcome.accepted)
            self._drafts += int(plan.drafts.sum())
            self._drafts_accepted += int(outcome.accepted.sum())

    def _apply(self, flight: InFlight, outcome: StepOutcome, now_ns: int) -> Committed:
        """Plain decodes by vector operations; the rest, and all when a row is leaving or failed, row by row."""
        running, plan = self._running, flight.plan
        if outcome.error is not None:
            return fail_rows(running.rows, plan, outcome.error)
        plain = flight.num_plain_decodes
        if running.has_leaving or outcome.failed is not None:
            plain = 0
        if not plain:
            return commit_rows(running.rows, plan, outcome, 0)
        if outcome.steps > 1 and self.config.late_blocks:
            ends = plan.starts + outcome.steps
            self._cache.grow_rows(running.rows, plan.slots, ends, now_ns - flight.planned_ns)
        decodes = commit_decodes(running.rows, plan, outcome, plain, bool(running.in_flight))
        if plain == len(plan.slots):
            return decodes
        return decodes.joined(commit_rows(running.rows, plan, outcome, plain))

    def _note_first_tokens(self, committed: Committed, now_ns: int) -> None:
        for row in committed.others:
            if row.sequence.first_token_ns is None:
                row.sequence.first_token_ns = now_ns

    def _publish(self, slots: Ints) -> None:
        """Makes blocks that these rows have completed findable and wakes those who wait for them."""
        if not self.config.prefix_caching:
            return
        rows = self._running.rows
        for slot in slots.tolist():
            sequence: Sequence = rows.sequence[slot]
            done = min(int(rows.committed[slot]) // self.config.block_size, len(sequence.keys))
            start = sequence.published
            if done > start and sequence.status is not Status.ENDING:
                self._cache.publish(rows, sequence, done)
                self._endings.requeue(self._claims.published(sequence, start, done))

    # Time

    def _pass_time(self, now_ns: int) -> None:
        if now_ns > self._now_ns:
            self._now_ns = now_ns
            self._cache.at(now_ns)
            self._transfers.tiers.at(now_ns)
