"""Where calls come in: a call becomes a request, a router says which replica gets it, and its end becomes a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.scheduler.refusal import Refusal
from headway.scheduler.request import Request
from headway.scheduler.sequence import Finished
from headway.simulator.clients import Client
from headway.simulator.course import Course
from headway.simulator.executor import STOP
from headway.simulator.record import Record
from headway.simulator.replica import Replica
from headway.simulator.router import Load, Router
from headway.simulator.world import World
from headway.workload.call import Call, WorkloadError


@dataclass(slots=True, eq=False)
class Job:
    """A call on its way."""

    client: Client
    call: Call
    request: Request
    answer_keys: tuple[bytes, ...]
    course: Course
    load: Load | None = None
    """Of the replica that has it."""
    added_ns: int = 0
    """When the replica got it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the fleet tells its clients. A true length is told to nobody."""

    max_context: int
    max_output_tokens: int | None
    """Of calls that have no limit of their own; None: what the context allows."""
    prefix_caching: bool


class Gateway:
    """Law: every call is answered exactly once."""

    def __init__(
        self,
        world: World,
        replicas: Sequence[Replica],
        loads: Sequence[Load],
        router: Router,
        limits: Limits,
        on_answer: Callable[[Client, Record], None],
    ) -> None:
        self._world = world
        self._replicas = replicas
        self._loads = loads
        self._router = router
        self._limits = limits
        self._on_answer = on_answer
        self._jobs: dict[str, Job] = {}

    def ask(self, client: Client, call: Call) -> None:
        if call.id in self._jobs:
            raise WorkloadError(f"call {call.id}: another with this id is in progress")
        request = self._request(client, call)
        answer_keys = self._answer_keys(client, call, request)
        job = self._jobs[call.id] = Job(client, call, request, answer_keys, Course(self._world.now_ns))
        self._dispatch(job)

    def ended(self, finished: Finished) -> None:
        """A replica is done with what it was given."""
        job = self._jobs[finished.id]
        self._take_back(job, finished)
        self._answer(job, finished.reason)

    # Inside

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
        if following is None or not request.block_keys:
            return ()
        known = min(following.num_input_tokens, call.num_input_tokens + call.num_output_tokens)
        keys = client.keys.keys(following.hash_ids, known)
        return keys if keys[: len(request.block_keys)] == request.block_keys else ()

    def _dispatch(self, job: Job) -> None:
        load = self._router.choose(job.request, self._loads)
        self._give(job, load)
        try:
            self._replicas[load.replica].add(job.request, job.call.num_output_tokens, job.answer_keys)
        except Refusal as refusal:
            load.count(job.call.num_input_tokens, -1)
            self._answer(job, refusal.kind, str(refusal))

    def _give(self, job: Job, load: Load) -> None:
        job.load, job.added_ns = load, self._world.now_ns
        load.count(job.call.num_input_tokens, 1)

    def _take_back(self, job: Job, finished: Finished) -> None:
        load = job.load
        if load is not None:
            load.count(job.call.num_input_tokens, -1)
            job.course.add(finished.receipt, job.added_ns, load.pool)

    def _answer(self, job: Job, reason: str, refusal: str = "") -> None:
        del self._jobs[job.call.id]
        course, now_ns = job.course, self._world.now_ns
        replica = job.load.replica if job.load is not None else -1
        record = Record(
            job.call,
            replica,
            course.arrival_ns,
            now_ns,
            reason,
            course.receipt(now_ns),
            refusal,
            tuple(course.charges.items()),
        )
        self._on_answer(job.client, record)
