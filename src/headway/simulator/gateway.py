"""Where calls come in: a call becomes a request, a router says which replica gets it, and its end becomes a record.

A call stays at a `mixed` replica. At one that only prefills it gets its first token, and goes on where its KV is sent.
If its replica fails, it goes on at another, with prompt and emitted tokens. A full queue refuses who comes in, and
nobody who has been let in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from headway.scheduler.refusal import Refusal
from headway.scheduler.request import Request
from headway.scheduler.sequence import Finished
from headway.simulator.clients import Client
from headway.simulator.course import Course
from headway.simulator.executor import NO_TOKEN_YET, STOP
from headway.simulator.group import Backend, Site
from headway.simulator.handover import Promise
from headway.simulator.record import Record
from headway.simulator.replica import ARRIVAL
from headway.simulator.world import World
from headway.workload.call import Call, WorkloadError

MAX_FAILURES = 64
"""In a row, without a token between them: then a call is given up."""


class Job(msgspec.Struct, eq=False):
    """A call on its way."""

    number: int
    client: Client
    call: Call
    site: Site
    way_ns: int
    request: Request
    """As it came."""
    answer_keys: tuple[bytes, ...]
    course: Course
    backend: Backend | None = None
    """Who has it, or had it last."""
    added_ns: int = 0
    """When the replica got it."""
    last_token_ns: int = NO_TOKEN_YET
    promise: Promise | None = None
    """Of its KV, for a replica that decodes."""
    failures: int = 0
    """In a row, without a token between them."""
    resent: int = 0
    prefill_replica: int | None = None
    """That gave it its first token, where pools are split."""
    handover_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What the fleet tells its clients. A true length is told to nobody."""

    max_context: int
    max_output_tokens: int | None
    """Of calls that have no limit of their own; None: what the context allows."""
    prefix_caching: bool
    block_size: int


class Gateway:
    """Law: every call is answered exactly once."""

    def __init__(
        self,
        world: World,
        backends: Sequence[Backend],
        sites: Sequence[Site],
        limits: Limits,
        on_answer: Callable[[Client, Record], None],
    ) -> None:
        self._world = world
        self._backends = backends
        self._groups = [group for site in sites for group in site.groups]
        self._limits = limits
        self._on_answer = on_answer
        self._jobs: dict[str, Job] = {}
        self._num_jobs = 0

    def ask(self, client: Client, call: Call, site: Site, way_ns: int) -> None:
        """It came the way to a site, stays there, and its tokens go the same way back."""
        if call.id in self._jobs:
            raise WorkloadError(f"call {call.id}: another with this id is in progress")
        request = self._request(client, call)
        keys = self._answer_keys(client, call, request)
        job = Job(self._num_jobs, client, call, site, way_ns, request, keys, Course(self._world.now_ns))
        self._num_jobs += 1
        self._jobs[call.id] = job
        self._dispatch(job)

    def ended(self, finished: Finished) -> None:
        """A replica is done with what it was given."""
        job = self._jobs[finished.id]
        backend = self._take_back(job, finished)
        cut = finished.reason == "length" and job.course.tokens_generated < job.request.max_tokens
        if backend.role == "prefill" and cut:
            job.last_token_ns = self._world.now_ns
            job.promise = self._promised(job, backend, finished)
            # As all that arrives: after every step that ends now, the one that a jump only passes through included.
            self._world.at(self._world.now_ns, ARRIVAL, self._dispatch, job)
        else:
            self._answer(job, finished.reason)

    def fail(self, backend: Backend) -> None:
        """A replica is lost: its requests go on elsewhere."""
        self._set_up(backend, False)
        if backend.end is not None:
            backend.end.fail()
        for finished, last_token_ns in backend.replica.fail():
            job = self._jobs[finished.id]
            before = job.course.tokens_generated
            self._take_back(job, finished)
            job.last_token_ns, job.promise = last_token_ns, None
            job.failures = 1 if job.course.tokens_generated > before else job.failures + 1
            if job.failures < MAX_FAILURES:
                job.resent += 1
                self._dispatch(job)
            else:
                self._answer(job, "failed", f"{job.failures} replicas failed in a row before it got another token")

    def recover(self, backend: Backend) -> None:
        """It is there again, empty, and takes what waited."""
        if backend.end is not None:
            backend.end.recover()
        self._set_up(backend, True)
        for group in self._groups:
            for _ in range(len(group.waiting)):
                self._dispatch(group.waiting.popleft())

    @property
    def has_waiting(self) -> bool:
        """Somebody waits for a replica."""
        return any(group.waiting for group in self._groups)

    def give_up(self, is_lost: Callable[[int], bool]) -> None:
        """Who waits where every replica is lost for good is answered."""
        for group in self._groups:
            for _ in range(len(group.waiting) if all(map(is_lost, group.replicas)) else 0):
                self._answer(group.waiting.popleft(), "no_replica", "no replica is up, and none will be")

    # Inside

    def _set_up(self, backend: Backend, is_up: bool) -> None:
        backend.load.is_up = is_up
        for group in self._groups:
            group.changed(backend.load)

    def _request(self, client: Client, call: Call) -> Request:
        limits = self._limits
        room = limits.max_context - call.num_input_tokens
        limit = call.max_output_tokens or limits.max_output_tokens
        keys: tuple[bytes, ...] = ()
        if call.hash_ids and limits.prefix_caching:
            keys = client.keys.keys(call.hash_ids, call.num_input_tokens)
        return Request(
            id=call.id,
            num_prompt_tokens=call.num_input_tokens,
            max_tokens=max(1, room if limit is None else min(room, limit)),
            num_tokens=call.num_input_tokens,
            block_keys=keys,
            stop_token_ids=(STOP,),
            session=call.session,
        )

    def _answer_keys(self, client: Client, call: Call, request: Request) -> tuple[bytes, ...]:
        """Of prompt and answer together: where the session's next call goes on from them, it says what they are."""
        following = client.following(call)
        if following is None or not request.block_keys or call.num_thinking_tokens:
            return ()
        known = min(following.num_input_tokens, call.num_input_tokens + call.num_output_tokens)
        keys = client.keys.keys(following.hash_ids, known)
        return keys if keys[: len(request.block_keys)] == request.block_keys else ()

    def _dispatch(self, job: Job) -> None:
        group = job.site.entries if job.promise is None else job.site.decoders
        load = group.choose(job.request)
        if load is None:
            group.waiting.append(job)
            return
        backend = self._backends[load.replica]
        job.backend, job.added_ns = backend, self._world.now_ns
        load.count(job.call.num_input_tokens, 1)
        if job.promise is not None and backend.inbox is not None:
            backend.inbox.expect(job.promise)
        emitted = job.course.tokens_generated
        try:
            if not emitted and not job.resent:
                backend.queue.check(backend.replica.scheduler, job.request.num_tokens)
            backend.replica.add(
                self._part(job, backend), job.call.num_output_tokens - emitted, job.answer_keys, job.last_token_ns
            )
        except Refusal as refusal:
            self._let_go(job, backend)
            self._answer(job, refusal.kind, str(refusal))

    def _part(self, job: Job, backend: Backend) -> Request:
        """What the replica is to do of it."""
        emitted = job.course.tokens_generated
        if not emitted and backend.role == "mixed":
            return job.request
        request = job.request
        return msgspec.structs.replace(
            request,
            num_tokens=request.num_prompt_tokens + emitted,
            max_tokens=emitted + 1 if backend.role == "prefill" else request.max_tokens,
            block_keys=request.block_keys if job.promise is None else job.promise.keys,
        )

    def _promised(self, job: Job, backend: Backend, finished: Finished) -> Promise:
        """Its last token has no KV yet. A last block that is not full is computed again."""
        end = backend.end
        if end is None:
            raise RuntimeError("a replica that only prefills has nowhere to send KV")
        num_tokens = job.request.num_prompt_tokens + finished.receipt.tokens_generated - 1
        known, wanted = job.request.block_keys, num_tokens // self._limits.block_size
        own = (_own_key(job.number, index) for index in range(len(known), wanted))
        began_ns = job.added_ns + finished.receipt.queue_ns
        return Promise((*known[:wanted], *own), end, end.lives, began_ns, self._world.now_ns)

    def _take_back(self, job: Job, finished: Finished) -> Backend:
        backend = job.backend
        if backend is None:
            raise RuntimeError(f"{finished.id} ended where it never was")
        self._let_go(job, backend)
        receipt = finished.receipt
        if backend.role == "prefill" and receipt.steps:
            job.prefill_replica = backend.load.replica
        if job.promise is not None:
            waited_ns = job.added_ns + receipt.queue_ns - job.promise.ended_ns
            job.handover_ns = waited_ns + (job.handover_ns or 0)
        job.course.add(receipt, job.added_ns, backend.load.pool)
        return backend

    def _let_go(self, job: Job, backend: Backend) -> None:
        backend.load.count(job.call.num_input_tokens, -1)
        if job.promise is not None and backend.inbox is not None:
            backend.inbox.forget(job.promise)

    def _answer(self, job: Job, reason: str, refusal: str = "") -> None:
        del self._jobs[job.call.id]
        course, now_ns, way_ns = job.course, self._world.now_ns, job.way_ns
        record = Record(
            call=job.call,
            replica=-1 if job.backend is None else job.backend.load.replica,
            arrival_ns=course.arrival_ns - way_ns,
            end_ns=now_ns + way_ns,
            reason=reason,
            receipt=course.receipt(now_ns),
            refusal=refusal,
            way_ns=way_ns,
            resent=job.resent,
            charges=tuple(course.charges.items()),
            prefill_replica=job.prefill_replica,
            handover_ns=job.handover_ns,
        )
        self._on_answer(job.client, record)


def _own_key(job: int, index: int) -> bytes:
    """Of a block that has no id in the trace: longer than those that have one, so that none is like it."""
    return job.to_bytes(8, "little") + index.to_bytes(8, "little") + b"\xff"
