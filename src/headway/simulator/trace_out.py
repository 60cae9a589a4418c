"""A run as a picture: its steps, queues, KV blocks and requests as trace events for Perfetto.

A process is a replica. It has a track of steps, counters, a track for each request, in which queue, prefill and decode
follow each other, and one for each transfer of KV. Steps that were jumped over are one slice, which says how many there
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.roofline import BOUNDS
from headway.scheduler.contract import StepOutcome, StepPlan
from headway.scheduler.receipt import Receipt
from headway.scheduler.scheduler import SchedulerStats
from headway.simulator.record import Record
from headway.simulator.trace_file import Event, TraceFile

STEPS = 1
"""Number of the steps' track: viewers take 0 for the idle one."""


def process(replica: int) -> int:
    """Number of its process. -1, of calls that no replica got, is the gateway's."""
    return replica + 2


class TraceOut:
    """An Observer that writes events as they occur. What it keeps is bounded by the rows of the replicas."""

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self._replicas: dict[int, _Replica] = {}
        self._num_tracks = 0

    def planned(self, replica: int, plan: StepPlan, now_ns: int) -> None:
        seen = self._replica(replica)
        seen.begun[plan.number] = (plan, now_ns)
        for load in plan.loads:
            seen.transfers[load.transfer] = (f"load from {load.tier}", len(load.keys), now_ns)
        for save in plan.saves:
            seen.transfers[save.transfer] = (f"save to {save.tier}", len(save.keys), now_ns)

    def stepped(
        self, replica: int, outcome: StepOutcome, now_ns: int, stats: SchedulerStats, bound_ns: Sequence[int]
    ) -> None:
        seen = self._replica(replica)
        plan, begin_ns = seen.begun.pop(outcome.number)
        if len(plan.slots):
            args = _arguments(plan, outcome) | seen.bound(bound_ns)
            self._file.add(now_ns, seen.step(seen.kind(plan), begin_ns, now_ns, args))
        self._file.add(now_ns, *seen.changed_counters(stats, now_ns))

    def arrived(self, replica: int, transfer: int, ok: bool, now_ns: int, began_ns: int | None = None) -> None:
        seen = self._replica(replica)
        if transfer not in seen.transfers:
            return
        name, blocks, planned_ns = seen.transfers.pop(transfer)
        # What broke off while the link carried others never began.
        begin_ns = min(now_ns, planned_ns if began_ns is None else began_ns)
        own = self._track(seen, "transfer")
        args = {"args": {"blocks": blocks, "ok": ok}}
        self._file.add(now_ns, _begin(own, name, begin_ns) | args, _end(own, name, now_ns))

    def recorded(self, record: Record) -> None:
        call = record.call
        args = {"session": call.session, "turn": call.turn, "output_tokens": call.num_output_tokens}
        if record.refused:
            args["refusal"] = record.refusal
        if record.handover_ns is not None:
            args["prefill_replica"] = record.prefill_replica
        known = {name: value for name, value in args.items() if value is not None}
        begin_ns, end_ns, wait_ns = record.arrival_ns + record.way_ns, record.end_ns - record.way_ns, record.handover_ns
        self.request(record.replica, call.id, begin_ns, end_ns, record.reason, record.receipt, known, wait_ns or 0)

    def request(
        self,
        replica: int,
        id: str,
        arrival_ns: int,
        end_ns: int,
        reason: str,
        receipt: Receipt,
        args: dict[str, Any],
        handover_ns: int = 0,
    ) -> None:
        """One that has ended. `handover_ns`: of its decode time."""
        own = self._track(self._replica(replica), "request")
        shown = args | {
            "reason": reason,
            "reused_tokens": receipt.tokens_reused,
            "computed_tokens": receipt.tokens_computed,
            "preemptions": receipt.preemptions,
        }
        events = [_begin(own, id, arrival_ns) | {"args": shown}]
        at_ns = arrival_ns
        for phase, took_ns in (
            ("queue", receipt.queue_ns),
            ("prefill", receipt.prefill_ns),
            ("hand-over", handover_ns),
            ("decode", receipt.decode_ns - handover_ns),
        ):
            if took_ns:
                events += [_begin(own, phase, at_ns), _end(own, phase, at_ns + took_ns)]
            at_ns += took_ns
        self._file.add(end_ns, *events, _end(own, id, end_ns))

    def _track(self, seen: _Replica, kind: str) -> Event:
        """Of its own, for one thing that lasts."""
        self._num_tracks += 1
        return {"pid": seen.process, "tid": STEPS, "cat": kind, "id": hex(self._num_tracks)}

    def _replica(self, index: int) -> _Replica:
        if index not in self._replicas:
            self._replicas[index] = _Replica(index)
            self._file.name(*self._replicas[index].names())
        return self._replicas[index]


class _Replica:
    """What is remembered of a replica between two events."""

    def __init__(self, index: int) -> None:
        self.process = process(index)
        self.begun: dict[int, tuple[StepPlan, int]] = {}
        self.transfers: dict[int, tuple[str, int, int]] = {}
        """Those under way: name, blocks, and when they were planned."""
        self._index = index
        self._prompts = np.zeros(0, np.int64)
        """[slots] tokens of the prompt of each slot's owner."""
        self._bound_ns: list[int] = []
        self._last_end_ns = 0
        self._counters: dict[str, dict[str, int]] = {}

    def names(self) -> tuple[Event, ...]:
        own = {"ph": "M", "pid": self.process}
        name = "gateway" if self._index < 0 else f"replica {self._index}"
        return (
            own | {"name": "process_name", "args": {"name": name}},
            own | {"name": "thread_name", "tid": STEPS, "args": {"name": "steps"}},
        )

    def kind(self, plan: StepPlan) -> str:
        """A row decodes when its one token, drafts left out, lies behind its prompt and it draws."""
        for admitted in plan.admitted:
            self._prompts.resize(max(len(self._prompts), admitted.slot + 1), refcheck=False)
            self._prompts[admitted.slot] = admitted.request.num_prompt_tokens
        decodes = (plan.counts - plan.drafts == 1) & plan.samples & (plan.starts >= self._prompts[plan.slots])
        return "decode" if decodes.all() else "mixed" if decodes.any() else "prefill"

    def bound(self, bound_ns: Sequence[int]) -> dict[str, str]:
        """What bound most of the time since the last step; nothing where that is not known."""
        before = self._bound_ns or [0] * len(bound_ns)
        self._bound_ns = list(bound_ns)
        spent = [now - then for now, then in zip(bound_ns, before, strict=True)]
        return {"bound": BOUNDS[spent.index(max(spent))]} if spent else {}

    def step(self, kind: str, begin_ns: int, end_ns: int, args: dict[str, Any]) -> Event:
        """One that was begun beside the last one is shown from the end of that."""
        begin_ns, self._last_end_ns = max(begin_ns, self._last_end_ns), end_ns
        own = {"ph": "X", "pid": self.process, "tid": STEPS, "name": kind, "cat": "step"}
        return own | {"ts": begin_ns / 1000, "dur": max(0, end_ns - begin_ns) / 1000, "args": args}

    def changed_counters(self, stats: SchedulerStats, now_ns: int) -> list[Event]:
        counters = {
            "requests": {"running": stats.num_running, "waiting": stats.num_waiting},
            "KV blocks": {"used": stats.blocks_used, "cached": stats.blocks_cached},
        }
        changed = [name for name, values in counters.items() if self._counters.get(name) != values]
        self._counters = counters
        own = {"ph": "C", "pid": self.process, "ts": now_ns / 1000}
        return [own | {"name": name, "args": counters[name]} for name in changed]


def _arguments(plan: StepPlan, outcome: StepOutcome) -> dict[str, Any]:
    """`tokens` of one step, `steps` in the slice."""
    return {
        "step": plan.number,
        "steps": outcome.steps,
        "rows": len(plan.slots),
        "tokens": int(plan.counts.sum()),
        "device_ns": outcome.device_ns,
    }


def _begin(own: Event, name: str, time_ns: int) -> Event:
    return own | {"ph": "b", "name": name, "ts": time_ns / 1000}


def _end(own: Event, name: str, time_ns: int) -> Event:
    return own | {"ph": "e", "name": name, "ts": time_ns / 1000}
