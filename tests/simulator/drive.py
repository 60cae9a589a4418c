"""Small fleets on which everything runs out, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from headway.arithmetic.spans import Span
from headway.scheduler.config import CacheGroup, SchedulerConfig
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.pools import Pool
from headway.simulator.record import Record
from headway.simulator.step_time import Counts, Step, Steps
from headway.simulator.tier_memory import TierMemory
from headway.workload.call import Call, Workload

MS = 1_000_000
KV_BLOCK_BYTES = 1000.0


@dataclass(frozen=True)
class PlainTime:
    """A step takes `base_ns`, and more for each new token and each attended one."""

    base_ns: int = MS
    token_ns: int = 1000
    attended_ns: int = 10
    gap_ns: int = 7
    spans: tuple[Span, ...] = (Span(),)

    def one(self, step: Counts) -> Step:
        tokens, _, _, pairs, _, _ = step
        return Step(self.base_ns + tokens * self.token_ns + pairs[0] * self.attended_ns, self.gap_ns, 0)

    def several(self, steps: int, step: Counts) -> Steps:
        del steps
        tokens, _, _, pairs, _, _ = step
        device_ns = self.base_ns + tokens * self.token_ns + pairs[0] * self.attended_ns
        return Steps(np.array(device_ns, np.int64), self.gap_ns, 0)


def config(num_blocks: int = 64, late_blocks: bool = True, **changes: object) -> SchedulerConfig:
    settings: dict[str, object] = {
        "groups": (CacheGroup("full", num_blocks),),
        "block_size": 4,
        "max_running": 8,
        "max_step_tokens": 32,
        "max_context": min(200, num_blocks * 4),
        "token_ids": False,
        "late_blocks": late_blocks,
    }
    return SchedulerConfig(**(settings | changes))  # type: ignore[arg-type]


@dataclass
class Outcome:
    records: list[Record]
    fleet: Fleet
    digests: list[list[tuple[int, str]]] = field(default_factory=list)
    """By replica: when each plan was made, and its digest."""

    def times(self) -> list[tuple[object, ...]]:
        """Everything that happened, but for the rounding of shares."""
        return [
            (r.call.id, r.replica, r.arrival_ns, r.end_ns, r.reason, r.receipt.queue_ns, r.receipt.prefill_ns,
             r.receipt.decode_ns, r.receipt.tokens_reused, r.receipt.tokens_computed, r.receipt.preemptions,
             r.receipt.tokens_generated)
            for r in self.records
        ]  # fmt: skip

    def check_answers(self, workload: Workload) -> None:
        """Each call is answered once, whole or for a reason, and its times are all of its time."""
        asked = {call.id: call for session in workload.sessions for call in session}
        assert sorted(r.call.id for r in self.records) == sorted(asked)
        for r in self.records:
            assert r.reason in ("stop", "length", "never_fits")
            assert not r.ok or r.receipt.tokens_generated == asked[r.call.id].num_output_tokens
            assert r.refused or r.receipt.queue_ns + r.receipt.prefill_ns + r.receipt.decode_ns == r.e2e_ns


def run(
    workload: Workload,
    scheduler: SchedulerConfig | None = None,
    time: object = None,
    replicas: int = 1,
    router: str = "round-robin",
    jumps: bool = True,
    max_output_tokens: int | None = None,
    check: bool = False,
    tiers: tuple[TierMemory, ...] = (),
) -> Outcome:
    """Replicas that are alike."""
    scheduler = replace(scheduler or config(), tiers=tuple(tier.tier(KV_BLOCK_BYTES) for tier in tiers))
    pool = Pool(replicas, scheduler, time or PlainTime(), tiers, KV_BLOCK_BYTES)  # type: ignore[arg-type]
    return run_fleet(workload, FleetConfig((pool,), router, max_output_tokens, jumps), check)


def run_fleet(workload: Workload, fleet_config: FleetConfig, check: bool = False) -> Outcome:
    """`check`: the brain's laws hold after every step."""
    records: list[Record] = []
    fleet = Fleet(fleet_config, records.append)
    outcome = Outcome(records, fleet, [[] for _ in fleet.replicas])
    for replica, digests in zip(fleet.replicas, outcome.digests, strict=True):
        _watch(replica, digests, check)
    fleet.run(workload)
    return outcome


def _watch(replica, digests: list[tuple[int, str]], check: bool) -> None:
    submit, collect = replica.executor.submit, replica.executor.collect

    def watched_submit(plan) -> None:
        digests.append((replica._world.now_ns, plan.digest()))
        submit(plan)

    def watched_collect():
        if check:
            replica.scheduler.check()
        return collect()

    replica.executor.submit, replica.executor.collect = watched_submit, watched_collect


def lone(*calls: tuple[float, int, int], ids: tuple[tuple[int, ...], ...] = ()) -> Workload:
    """(arrival, input, output) each."""
    hashes = ids or ((),) * len(calls)
    return Workload(
        "lone",
        [
            (Call(str(i), num_input, num_output, arrival_s=at_s, hash_ids=h),)
            for i, ((at_s, num_input, num_output), h) in enumerate(zip(calls, hashes, strict=True))
        ],
        hash_block_size=4,
    )
