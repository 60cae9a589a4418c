"""What the brain costs: plan plus commit of a pure decode step, by number of running rows.

Averaged over whole block periods, with prompts of mixed lengths so that rows reach block borders at different steps.

    python benchmarks/scheduler.py --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np

from headway.scheduler.config import CacheGroup, SchedulerConfig
from headway.scheduler.contract import StepOutcome, StepPlan
from headway.scheduler.request import Request
from headway.scheduler.scheduler import Scheduler

BLOCK_SIZE = 16
CONTEXT = 2048


def decoding_scheduler(num_running: int, num_steps: int) -> Scheduler:
    """Every request has finished its prompt and has more than `num_steps` tokens to go."""
    config = SchedulerConfig(
        groups=(CacheGroup("full", num_running * CONTEXT // BLOCK_SIZE),),
        block_size=BLOCK_SIZE,
        max_running=num_running,
        max_step_tokens=max(8192, num_running),
        max_context=CONTEXT,
    )
    scheduler = Scheduler(config)
    rng = np.random.default_rng(0)
    for i in range(num_running):
        tokens = rng.integers(1, 50_000, int(rng.integers(64, 96)))
        scheduler.add(Request(str(i), len(tokens), num_steps + 64, tokens, stop_token_ids=(0,)), 0)
    while scheduler.stats().num_waiting or not _step(scheduler)[1]:
        _step(scheduler)
    return scheduler


def _step(scheduler: Scheduler) -> tuple[int, bool]:
    """CPU nanoseconds of plan and commit together, and whether every row decoded."""
    start = time.thread_time_ns()
    plan = scheduler.plan(0)
    planned = time.thread_time_ns()
    assert isinstance(plan, StepPlan)
    outcome = StepOutcome(plan.number, np.ones(int(plan.samples.sum()), np.int64), device_ns=1_000_000)
    executed = time.thread_time_ns()
    scheduler.commit(outcome, 2_000_000)
    return planned - start + time.thread_time_ns() - executed, len(plan.slots) == scheduler.config.max_running


def plan_commit_us(num_running: int, periods: int = 20) -> float:
    """Median over block periods of the mean over a period's steps."""
    scheduler = decoding_scheduler(num_running, (periods + 2) * BLOCK_SIZE)
    means = []
    for _ in range(periods):
        means.append(statistics.mean(_step(scheduler)[0] for _ in range(BLOCK_SIZE)) / 1000)
    return round(statistics.median(means), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    result = {str(n): plan_commit_us(n) for n in (64, 256, 1024)}
    if arguments.json:
        print(json.dumps({"plan_commit_us": result}))
    else:
        for n, us in result.items():
            print(f"{n:>6} running  {us:8.1f} µs  plan + commit")


if __name__ == "__main__":
    main()
