"""What each request needed: FLOPs, bytes of weights and of KV, joules, and what its steps were bound by.

KV bytes and FLOPs of attention belong to the row that needs them, with their joules; all else of a step is shared in
proportion to the rows' tokens. Integers, rounded by largest remainder. Law: requests add up to the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headway.roofline import BOUNDS
from headway.scheduler.contract import Ints, StepOutcome, StepPlan
from headway.scheduler.ledger import share
from headway.scheduler.scheduler import SchedulerStats
from headway.simulator.energy_meter import EnergyMeter, energy_meter
from headway.simulator.record import Record, Work
from headway.simulator.work_table import WorkTable

if TYPE_CHECKING:
    from headway.simulator.simulation import Setup

_FLOPS, _WEIGHT_BYTES, _KV_BYTES, _ENERGY_NJ = range(4)
_AMOUNTS = 3
_FIRST_BOUND = 4
_WORK_NJ = _FIRST_BOUND + len(BOUNDS)
_UNMETERED = _WORK_NJ + 1
"""Slots at replicas whose power is not known."""
_BY_TIME = _WORK_NJ + 2
"""Slots at replicas where nobody knows what FLOPs and bytes take."""
_COLUMNS = _WORK_NJ + 3
"""Of which the last three are known when a slot is left."""


class WorkReceipts:
    """An Observer. Of a step that was lost with its replica, only the time is counted."""

    def __init__(
        self, tables: Sequence[WorkTable], max_running: Sequence[int], meters: Sequence[EnergyMeter] | None = None
    ) -> None:
        """Of each replica. `meters` None: no power is known."""
        self._meters = meters or [EnergyMeter()] * len(tables)
        self._replicas = [_Replica(*each) for each in zip(tables, max_running, self._meters, strict=True)]
        self._left: dict[str, Ints] = {}
        """Of requests that have not ended, from the slots that they have left."""
        self._seats: dict[str, list[tuple[_Replica, int]]] = {}

    def planned(self, replica: int, plan: StepPlan, now_ns: int) -> None:
        del now_ns
        seen = self._replicas[replica]
        seen.plans[plan.number] = plan
        for slot in plan.released.tolist():
            self._leave(seen, slot)
        for admitted in plan.admitted:
            self._leave(seen, admitted.slot)
            seen.owners[admitted.slot] = admitted.request.id
            self._seats.setdefault(admitted.request.id, []).append((seen, admitted.slot))

    def stepped(
        self, replica: int, outcome: StepOutcome, now_ns: int, stats: SchedulerStats, bound_ns: Sequence[int]
    ) -> None:
        del now_ns, stats
        self._replicas[replica].charge(outcome, bound_ns)

    def arrived(self, replica: int, transfer: int, ok: bool, now_ns: int, began_ns: int | None = None) -> None:
        """Nothing: bytes that links carry are no step's."""

    def recorded(self, record: Record) -> None:
        """Nothing: `take` is how its work is asked for."""

    def take(self, request_id: str) -> Work:
        """Of a request that has ended. It is forgotten."""
        for seen, slot in self._seats.pop(request_id, ()):
            self._fold(request_id, seen, slot)
        totals = self._left.pop(request_id, None)
        if totals is None:
            return Work()
        flops, weight_bytes, kv_bytes, energy_nj, *by_bound, work_nj, unmetered, by_time = totals.tolist()
        return Work(
            flops,
            weight_bytes,
            kv_bytes,
            BOUNDS[by_bound.index(max(by_bound))] if any(by_bound) else None,
            None if unmetered else energy_nj,
            None if by_time else work_nj,
        )

    @property
    def totals(self) -> tuple[int, int, int]:
        """FLOPs, weight bytes and KV bytes of all steps, each counted as it was divided."""
        flops, weight_bytes, kv_bytes = (sum(seen.totals[i] for seen in self._replicas) for i in range(_AMOUNTS))
        return flops, weight_bytes, kv_bytes

    @property
    def energy_rule(self) -> str:
        """In words, by what joules are shared out."""
        return "; or ".join(dict.fromkeys(meter.rule for meter in self._meters))

    def _leave(self, seen: _Replica, slot: int) -> None:
        owner = seen.owners[slot]
        if owner is not None:
            self._seats[owner].remove((seen, slot))
            self._fold(owner, seen, slot)

    def _fold(self, owner: str, seen: _Replica, slot: int) -> None:
        seen.owners[slot] = None
        left = self._left.get(owner)
        mine = seen.left(slot)
        self._left[owner] = mine if left is None else left + mine
        seen.slots[:, slot] = 0


def work_receipts(setup: Setup) -> WorkReceipts:
    """Of all replicas of a setup. Raises what `step_work` raises."""
    tables: list[WorkTable] = []
    rows: list[int] = []
    meters: list[EnergyMeter] = []
    for pool in setup.all_pools:
        table = WorkTable(pool.model, pool.precision, pool.max_step_tokens)
        tables += [table] * pool.num_replicas
        rows += [pool.max_running] * pool.num_replicas
        meters += [energy_meter(pool, table.rates)] * pool.num_replicas
    return WorkReceipts(tables, rows, meters)


class _Replica:
    def __init__(self, table: WorkTable, max_running: int, meter: EnergyMeter) -> None:
        self.plans: dict[int, StepPlan] = {}
        self.owners: list[str | None] = [None] * max_running
        self.slots = np.zeros((_COLUMNS, max_running), np.int64)
        self.totals = [0] * _AMOUNTS
        self._table = table
        self._meter = meter
        self._energy_nj = 0
        """Shared out so far."""
        self._bound_ns = [0] * len(BOUNDS)

    def charge(self, outcome: StepOutcome, bound_ns: Sequence[int]) -> None:
        plan, before = self.plans.pop(outcome.number), self._bound_ns
        self._bound_ns = list(bound_ns)
        if not len(plan.slots):
            return
        for bound, (then, now) in enumerate(zip(before, bound_ns, strict=True), _FIRST_BOUND):
            if now > then:
                self._divide(bound, now - then, plan)
        own_nj = self._charge_work(plan, outcome.steps) if outcome.error is None else None
        if self._meter.power_w is not None:
            self._charge_energy(plan, self._meter.busy_nj(sum(bound_ns)), own_nj)

    def left(self, slot: int) -> Ints:
        """[_COLUMNS] of its owner, who leaves it."""
        mine: Ints = self.slots[:, slot].copy()
        mine[_WORK_NJ] = self._meter.work_nj(mine[_FLOPS], mine[_WEIGHT_BYTES] + mine[_KV_BYTES])
        mine[_UNMETERED], mine[_BY_TIME] = self._meter.power_w is None, self._meter.work is None
        return mine

    def _charge_energy(self, plan: StepPlan, so_far_nj: int, own_nj: Ints | None) -> None:
        """What a row's own FLOPs and bytes take goes to it; weights and time go by tokens, so do their joules."""
        left_nj = so_far_nj - self._energy_nj
        self._energy_nj = so_far_nj
        if own_nj is not None:
            needed_nj = int(own_nj.sum())
            if needed_nj > left_nj:  # A timer that is faster than the chip.
                own_nj = np.floor(own_nj * (left_nj / needed_nj)).astype(np.int64)
            self.slots[_ENERGY_NJ][plan.slots] += own_nj
            left_nj -= int(own_nj.sum())
        self._divide(_ENERGY_NJ, left_nj, plan)

    def _charge_work(self, plan: StepPlan, steps: int) -> Ints:
        """[R] joules of what each row needs for itself, in nanojoules."""
        sampled = int(np.count_nonzero(plan.samples))
        flops, weight_bytes = (steps * each for each in self._table.shared(int(plan.counts.sum()), sampled))
        own_flops, kv_bytes = self._table.own(plan.starts, plan.counts, steps)
        self._divide(_FLOPS, flops, plan)
        self._divide(_WEIGHT_BYTES, weight_bytes, plan)
        self.slots[_FLOPS][plan.slots] += own_flops
        self.slots[_KV_BYTES][plan.slots] += kv_bytes
        for column, amount in enumerate((flops + int(own_flops.sum()), weight_bytes, int(kv_bytes.sum()))):
            self.totals[column] += amount
        return self._meter.work_nj(own_flops, kv_bytes)

    def _divide(self, column: int, total: int, plan: StepPlan) -> None:
        """By tokens. What is a whole number for each token goes first: total times tokens may be over 64 bits."""
        row, slots, counts = self.slots[column], plan.slots, plan.counts
        num_tokens = int(counts.sum())
        each, left = divmod(total, num_tokens)
        if plan.repeats > 1:  # One token each.
            row[slots] += each
            row[slots[:left]] += 1
        else:
            row[slots] += counts * each + share(left, counts, num_tokens)
