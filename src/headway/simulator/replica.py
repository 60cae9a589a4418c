"""One replica: the scheduler that serves, its executor, and the step loop between them, on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headway.scheduler.contract import StepOutcome, StepPlan, WakeAt
from headway.scheduler.refusal import Refusal
from headway.scheduler.scheduler import Scheduler
from headway.simulator.executor import NO_TOKEN_YET, ModelledExecutor, Timer
from headway.simulator.world import World

if TYPE_CHECKING:
    from headway.scheduler.config import SchedulerConfig
    from headway.scheduler.facts import Fact
    from headway.scheduler.memory_use import MemoryUse
    from headway.scheduler.request import Request
    from headway.scheduler.sequence import Finished
    from headway.simulator.links import Carrier
    from headway.simulator.observer import Observer

ARRIVAL = 1 << 20
"""Priority of arrivals: at equal times after all steps that end (their priority is the replica's number)."""
START = 1 << 21
"""Of an idle replica's first step: after all arrivals of that moment."""

OnEnd = Callable[["Finished"], None]


class Replica:
    """Plan, execute, commit, as the engine's step loop does. One plan is in flight at a time."""

    def __init__(
        self,
        index: int,
        world: World,
        config: SchedulerConfig,
        timer: Timer,
        on_end: OnEnd,
        jumps: bool = True,
        observer: Observer | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        """`carrier` moves KV: needed where there are tiers, or other replicas to load from."""
        self.index = index
        self.config = config
        self.scheduler = Scheduler(config)
        self.executor = ModelledExecutor(world, timer, config.max_running, jumps)
        self._world = world
        self._on_end = on_end
        self._observer = observer
        self._carrier = carrier
        self._busy = False
        self._starting = False
        self._planned_ns = 0
        self._late: list[str] = []
        """Requests that came too late for the step that runs."""
        self._submission = 0
        """Counts plans and cuts: an event that was scheduled for an earlier one is void."""
        self._life = 0
        """Counts failures: what an earlier scheduler asked for is void."""
        self._began_ns: dict[int, int] = {}
        """When loads that are under way began, by transfer."""
        self._past_use: tuple[MemoryUse, ...] = ()
        """Of the memories of all earlier schedulers."""

    def add(
        self,
        request: Request,
        num_output_tokens: int,
        keys: tuple[bytes, ...] = (),
        last_token_ns: int = NO_TOKEN_YET,
    ) -> None:
        """Raises Refusal. The length of what is still to come, and what else the executor expects, is for it alone."""
        self.executor.expect(request.id, num_output_tokens, keys, last_token_ns)
        try:
            self.scheduler.add(request, self._world.now_ns)
        except Refusal:
            self.executor.forget(request.id)
            raise
        self._late.append(request.id)
        self._rouse()

    def tell(self, fact: Fact) -> None:
        self.scheduler.tell(fact)

    def memory_use(self) -> tuple[MemoryUse, ...]:
        """The device, then the tiers, since the start of the run."""
        uses, past = self.scheduler.memory_use(self._world.now_ns), self._past_use
        return tuple(use.plus(before) for use, before in zip(uses, past, strict=True)) if past else uses

    def fail(self) -> list[tuple[Finished, int]]:
        """The machine is lost, with its cache and all requests: each as far as it came, and when it got its last token.

        Steps that are over count; the one that runs is charged as far as it ran.
        """
        expected = self.executor.expected
        if self._busy:
            self._break_off()
        for request_id in expected:
            self.scheduler.cancel(request_id, self._world.now_ns)
        ended = {finished.id: finished for finished in self.scheduler.take_ended()}
        lost = [(ended[request_id], self.executor.last_token_ns(request_id)) for request_id in expected]
        self.executor.clear()
        if not self.scheduler.is_fresh:
            self._past_use = self.memory_use()
            self.scheduler = Scheduler(self.config)
        self._busy = False
        self._submission += 1
        self._life += 1
        self._began_ns.clear()
        return lost

    def _break_off(self) -> None:
        """Of several steps in one plan, the one that runs is planned anew, as of when it began."""
        began_ns = self._planned_ns
        if self.executor.keep_whole_steps():
            began_ns = self.executor.done_ns
            self._commit(self.executor.collect(), began_ns)
            for request_id in self._late:
                self.scheduler.cancel(request_id, self._world.now_ns)
            plan = self.scheduler.plan(began_ns)
            if not isinstance(plan, StepPlan):
                return
            self._submit(plan, began_ns)
        self._commit(self.executor.break_off(began_ns), self._world.now_ns)

    def _rouse(self) -> None:
        """Something has happened that the next plan must know of."""
        if not self._busy:
            self._wake()
        elif self.executor.cut():
            self._await()

    def _wake(self) -> None:
        if not self._starting:
            self._starting = True
            self._world.at(self._world.now_ns, START, self._start)

    def _start(self) -> None:
        self._starting = False
        if not self._busy:
            self._step()

    def _step(self) -> None:
        plan = self.scheduler.plan(self._world.now_ns)
        if isinstance(plan, StepPlan):
            self._busy = True
            self._submit(plan, self._world.now_ns)
            if plan.loads or plan.saves:
                self._carry(plan)
            self._await()
        elif isinstance(plan, WakeAt):
            # What is waited for is an event of its own: a deadline alone does not keep the world going.
            self._world.aside(max(plan.time_ns, self._world.now_ns + 1), START, self._start)
        self._hand_over()

    def _submit(self, plan: StepPlan, now_ns: int) -> None:
        self._planned_ns, self._late = now_ns, []
        self.executor.submit(plan)
        if self._observer is not None:
            self._observer.planned(self.index, plan, now_ns)

    def _carry(self, plan: StepPlan) -> None:
        carrier = self._carrier
        if carrier is None:
            raise RuntimeError("a plan moves KV where nothing carries it")
        for load in plan.loads:
            arrived = partial(self._arrived, self._life, load.transfer)
            self._began_ns[load.transfer] = carrier.load(load, arrived)
        for save in plan.saves:
            carrier.save(save, partial(self._arrived, self._life, save.transfer))

    def _arrived(self, life: int, transfer: int, ok: bool) -> None:
        if life != self._life:
            return
        self.scheduler.arrived(transfer, ok, self._world.now_ns)
        began_ns = self._began_ns.pop(transfer, None)
        if self._observer is not None:
            self._observer.arrived(self.index, transfer, ok, self._world.now_ns, began_ns)
        self._rouse()

    def _await(self) -> None:
        self._submission += 1
        self._world.at(self.executor.done_ns, self.index, self._done, self._submission)

    def _done(self, submission: int) -> None:
        if submission != self._submission:
            return
        self._busy = False
        self._commit(self.executor.collect(), self._world.now_ns)
        self._hand_over()
        self._step()

    def _commit(self, outcome: StepOutcome, now_ns: int) -> None:
        for fact in self.executor.take_facts():
            self.scheduler.tell(fact)
        self.scheduler.commit(outcome, now_ns)
        if self._observer is not None:
            self._observer.stepped(self.index, outcome, now_ns, self.scheduler.stats(), self.executor.bound_ns)

    def _hand_over(self) -> None:
        for finished in self.scheduler.take_ended():
            self.executor.forget(finished.id)
            self._on_end(finished)
