"""A brain and a scripted body on a counted clock, and what must come out of them."""

from __future__ import annotations

from collections import deque

import numpy as np

from headway.scheduler.config import CacheGroup, SchedulerConfig
from headway.scheduler.contract import StepPlan, WakeAt
from headway.scheduler.request import Request
from headway.scheduler.scheduler import Scheduler
from headway.scheduler.sequence import Finished
from headway.scheduler.step_log import Recorder
from headway.scheduler.step_records import VERSION, Header

from .scripted import ScriptedExecutor, counting_script

STOP = 0


def config(num_blocks: int = 64, **changes: object) -> SchedulerConfig:
    """Small enough that everything runs out: blocks of 4 tokens, 8 rows, 32 tokens a step."""
    settings: dict[str, object] = {
        "groups": (CacheGroup("full", num_blocks),),
        "block_size": 4,
        "max_running": 8,
        "max_step_tokens": 32,
        "max_context": 256,
    }
    return SchedulerConfig(**(settings | changes))  # type: ignore[arg-type]


def request(id: str, prompt: list[int] | int, max_tokens: int = 8, **more: object) -> Request:
    tokens = np.array(prompt if isinstance(prompt, list) else [10 + i % 50 for i in range(prompt)], np.int64)
    more.setdefault("stop_token_ids", (STOP,))
    return Request(id, len(tokens), max_tokens, tokens, **more)  # type: ignore[arg-type]


def expected_output(request: Request, script=counting_script) -> list[int]:
    """What the script draws for it when nothing shares the machine."""
    drawn: list[int] = []
    while len(drawn) < request.max_tokens:
        drawn.append(script(request.id, request.num_prompt_tokens + len(drawn)))
        if drawn[-1] in request.stop_token_ids:
            break
    return drawn


class Drive:
    """`depth` plans may be in flight. Laws are checked after every call."""

    def __init__(self, config: SchedulerConfig, depth: int = 1, script=counting_script) -> None:
        self.scheduler = Scheduler(config, b"key")
        self.log: list[bytes] = []
        self.brain = Recorder(self.scheduler, self.log.append, Header(VERSION, config))
        self.body = ScriptedExecutor(config, script)
        self.depth = depth
        self.now_ns = 0
        self.outputs: dict[str, list[int]] = {}
        self.ended: dict[str, Finished] = {}
        self.plans: deque[StepPlan] = deque()
        self.wake: WakeAt | None = None

    def add(self, *requests: Request) -> None:
        for each in requests:
            self.outputs.setdefault(each.id, [])
            self.brain.add(each, self.now_ns)
        self.check()

    def submit(self) -> StepPlan | None:
        """Plans once and hands the plan over."""
        self.now_ns += 10
        plan = self.brain.plan(self.now_ns)
        self.wake = plan if isinstance(plan, WakeAt) else None
        self.check()
        if not isinstance(plan, StepPlan):
            return None
        self.body.submit(plan)
        self.plans.append(plan)
        return plan

    def collect(self) -> None:
        """Takes the oldest plan's outcome."""
        self.plans.popleft()
        outcome = self.body.collect()
        self.now_ns += 2000
        committed = self.brain.commit(outcome, self.now_ns)
        at = 0
        for name, count in zip(committed.request_ids, committed.counts.tolist(), strict=True):
            self.outputs[name] += committed.token_ids[at : at + count].tolist()
            at += count
        self.check()

    def step(self) -> StepPlan | None:
        """Fills the pipeline, then takes one outcome. The first plan handed over, if any."""
        first = None
        while len(self.plans) < self.depth and (plan := self.submit()) is not None:
            first = first or plan
        if self.plans:
            self.collect()
        return first

    def run(self, max_steps: int = 3000) -> None:
        """Until nothing is left to do; a brain that makes no progress fails here."""
        for _ in range(max_steps):
            busy = bool(self.plans)
            if self.step() is None and not busy:
                return
        raise AssertionError(f"still busy after {max_steps} steps: {self.scheduler.stats()}")

    def finish_transfer(self, number: int, ok: bool = True) -> None:
        self.body.finish_transfer(number, ok)
        self.brain.arrived(number, ok, self.now_ns)
        self.check()

    def settle(self) -> None:
        """Runs, and ends transfers, until there is neither work nor transfer."""
        self.run()
        while self.body.transfers:
            self.finish_transfer(next(iter(self.body.transfers)))
            self.run()

    def check(self) -> None:
        for finished in self.brain.take_ended():
            assert finished.id not in self.ended, "a request ended twice"
            self.ended[finished.id] = finished
        self.scheduler.check()
