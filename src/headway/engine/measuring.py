"""Steps of the real engine, chosen so that a cost model can be fitted to them: decode, prompts in chunks, both at once.

The scheduler plans them and the executor runs them, as when serving. Only what comes before a measured step is left
out: rows reach their context with a cache of zeros, which takes as long to read as any other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from headway.engine.errors import ModelError
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Executor, Ints, StepOutcome, StepPlan, ints
from headway.scheduler.request import Request
from headway.scheduler.scheduler import Scheduler

BATCHES = (1, 2, 3, 4, 8, 16, 32, 64, 128)
CONTEXTS = (32, 256, 1024, 4096)
PROMPTS = (12, 48, 128, 256, 700, 2000)
BESIDE = ((4, 256), (24, 64))
"""(rows that decode, their context) while a prompt is computed."""
DECODE_STEPS = 5
MARGIN = 64
"""Tokens by which a sequence may grow beyond what its scenario says."""
MAX_ROWS_TOKENS = 1 << 17
"""Of all rows' contexts together: bounds the time of one scenario."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`rows` sequences that hold `context` tokens decode for DECODE_STEPS steps, or while a prompt is computed."""

    rows: int
    context: int
    prompt: int = 0

    @property
    def kind(self) -> tuple[int, bool]:
        """Scenarios of a kind differ in size only."""
        return (self.context, False) if not self.prompt else (self.rows, True)

    @property
    def tokens(self) -> int:
        """Most KV that it holds, a block's rounding left out."""
        return self.rows * (self.context + MARGIN) + self.prompt


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """Rows [R] as in the plan. The gap is what passed besides, from the end of the step before to the end of this."""

    starts: Ints
    counts: Ints
    sampled: int
    device_ns: int
    gap_ns: int


def scenarios(config: SchedulerConfig) -> tuple[Scenario, ...]:
    """Those that this engine has room for; of a kind, the larger ones later."""
    room = min(group.num_blocks for group in config.groups) * config.block_size
    most = min(room // 2, MAX_ROWS_TOKENS)
    decodes = [Scenario(batch, context) for context in CONTEXTS for batch in BATCHES]
    prompts = [Scenario(0, 0, prompt) for prompt in PROMPTS]
    mixed = [Scenario(rows, context, prompt) for rows, context in BESIDE for prompt in PROMPTS[:-2]]
    return tuple(
        s
        for s in (*decodes, *prompts, *mixed)
        if s.rows < config.max_running
        and s.tokens <= most
        and max(s.context + MARGIN, s.prompt + MARGIN) <= config.max_context
    )


class Measuring:
    """One scheduler and one executor through all scenarios. `depth`: plans in flight, as the step loop has them."""

    def __init__(self, executor: Executor, config: SchedulerConfig, vocab: int, depth: int = 1) -> None:
        self._executor = executor
        self._brain = Scheduler(replace(config, prefix_caching=False))
        self._depth = depth
        self._random = np.random.default_rng(0)
        self._vocab = vocab
        self._num_requests = 0

    def run(self, scenario: Scenario) -> list[MeasuredStep]:
        """Raises ModelError if a step fails."""
        names = [self._add(scenario.context, 1 << 20) for _ in range(scenario.rows)]
        ready = self._skip_prompts(scenario.rows)
        if scenario.prompt:
            if ready is not None:
                self._skip(ready)
            names.append(self._add(scenario.prompt, 1))
            ready = None
        steps = self._measured(ready, None if scenario.prompt else DECODE_STEPS, names[-1])
        for name in names:
            self._brain.cancel(name, 0)
        self._brain.take_ended()
        return steps

    def _add(self, prompt: int, output: int) -> str:
        self._num_requests += 1
        name, tokens = str(self._num_requests), self._random.integers(0, self._vocab, prompt)
        room = self._brain.config.max_context - prompt
        self._brain.add(Request(name, prompt, min(output, room), tokens), 0)
        return name

    def _plan(self) -> StepPlan:
        plan = self._brain.plan(0)
        if not isinstance(plan, StepPlan):
            raise RuntimeError("the scheduler has nothing to run")
        return plan

    def _skip_prompts(self, rows: int) -> StepPlan | None:
        """The first plan in which every row decodes."""
        while rows:
            plan = self._plan()
            if len(plan.slots) == rows and (plan.counts == 1).all() and not plan.admitted:
                return plan
            self._skip(plan)
        return None

    def _skip(self, plan: StepPlan) -> None:
        """The body learns of new rows and blocks and computes nothing."""
        none, no = ints(), np.zeros(0, np.bool_)
        empty = msgspec.structs.replace(
            plan, slots=none, starts=none, counts=none, drafts=none, samples=no, token_ids=none
        )
        self._executor.submit(empty)
        _checked(self._executor.collect())
        self._brain.commit(StepOutcome(plan.number, np.zeros(int(plan.samples.sum()), np.int64)), 0)

    def _measured(self, ready: StepPlan | None, most: int | None, last: str) -> list[MeasuredStep]:
        """`most` steps, or until request `last` has ended. What is planned before the clock starts is the first."""
        steps: list[MeasuredStep] = []
        in_flight: list[StepPlan] = []
        before_ns = time.perf_counter_ns()
        over = False
        while not over or in_flight:
            while not over and len(in_flight) < self._depth:
                following = ready or self._brain.plan(0)
                ready = None
                if not isinstance(following, StepPlan):
                    over = True
                    break
                self._executor.submit(following)
                in_flight.append(following)
            if not in_flight:
                break
            plan, outcome = in_flight.pop(0), _checked(self._executor.collect())
            self._brain.commit(outcome, 0)
            ended = {finished.id for finished in self._brain.take_ended()}
            now_ns = time.perf_counter_ns()
            gap_ns = max(0, now_ns - before_ns - outcome.device_ns)
            before_ns = now_ns
            steps.append(MeasuredStep(plan.starts, plan.counts, int(plan.samples.sum()), outcome.device_ns, gap_ns))
            over = over or last in ended or len(steps) + len(in_flight) == most
        return steps


def _checked(outcome: StepOutcome) -> StepOutcome:
    if outcome.error is not None:
        raise ModelError(outcome.error)
    if outcome.failed is not None and len(outcome.failed):
        raise ModelError("a row's logits are not finite")
    return outcome
