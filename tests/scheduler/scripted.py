"""A body without a model: it keeps its own tables as the contract asks, and draws from a script.

It checks what any body relies on: that a row's tokens and blocks are what its copy says, that no block is written by
two rows, and that whatever a row reads was written with the very tokens that it holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import DEVICE, IN_FLIGHT, Load, Save, StepOutcome, StepPlan

Script = Callable[[str, int], int]
"""(request id, position) → the token that the model draws there."""


def counting_script(request_id: str, position: int) -> int:
    """Depends on both, repeats often enough for prompt lookup to find something, and never draws token 0."""
    return 1 + (len(request_id) * 7 + position * position // 3) % 5


@dataclass
class _Row:
    request_id: str
    tokens: list[int]
    failed: bool = False
    """A step of it gave nothing: whatever it computes after that is rubbish, and unwanted."""

    def token_at(self, position: int) -> int:
        return 0 if self.failed else self.tokens[position]


@dataclass
class ScriptedExecutor:
    config: SchedulerConfig
    script: Script = counting_script
    device_ns: int = 1000
    fail_next: str | None = None
    bad_slots: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reads_tables = not self.config.late_blocks
        self.rows: dict[int, _Row] = {}
        width = -(-self.config.max_context // self.config.block_size)
        self.tables = [np.full((self.config.max_running, width), -1) for _ in self.config.groups]
        self.memory: list[dict[int, dict[int, tuple[int, ...]]]] = [{} for _ in self.config.groups]
        """By group and block: offset → all tokens up to that position, which is what KV depends on."""
        self.pending: deque[StepPlan] = deque()
        self.loads: dict[int, StepPlan] = {}
        self.transfers: dict[int, Load | Save] = {}
        self.tiers: dict[str, dict[int, list[dict[int, tuple[int, ...]]]]] = {t.name: {} for t in self.config.tiers}
        """By tier and block: what each group's block held."""
        self.computed_tokens = 0
        self.plans: list[StepPlan] = []

    def submit(self, plan: StepPlan) -> None:
        self.pending.append(plan)
        self.plans.append(plan)

    def collect(self) -> StepOutcome:
        plan = self.pending.popleft()
        self._apply(plan)
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            for slot in plan.slots.tolist():
                self.rows[slot].failed = True
            return StepOutcome(plan.number, np.zeros(0, np.int64), error=error)
        return self._run(plan)

    def _apply(self, plan: StepPlan) -> None:
        for slot in plan.released.tolist():
            del self.rows[slot]
        for admitted in plan.admitted:
            assert admitted.slot not in self.rows, "a slot has two owners"
            self.rows[admitted.slot] = _Row(admitted.request.id, admitted.tokens.tolist())
            for table in self.tables:
                table[admitted.slot] = -1
        for table, change in zip(self.tables, plan.blocks, strict=True):
            table[change.slots, change.indices] = change.blocks
        for load in plan.loads:
            self.loads[load.transfer] = plan
        self.transfers |= {transfer.transfer: transfer for transfer in (*plan.loads, *plan.saves)}

    def finish_transfer(self, number: int, ok: bool = True) -> None:
        """Copies at the last moment that the contract allows; a failed one leaves rubbish."""
        transfer = self.transfers.pop(number)
        if isinstance(transfer, Load):
            for i, source in enumerate(transfer.sources.tolist()):
                for g, memory in enumerate(self.memory):
                    held = self.tiers[transfer.tier][source][g] if ok else {}
                    memory[int(transfer.blocks[g][i])] = dict(held)
            return
        for i, target in enumerate(transfer.targets.tolist()):
            self.tiers[transfer.tier][target] = self._source(transfer, i) if ok else [{} for _ in self.memory]

    def _source(self, save: Save, i: int) -> list[dict[int, tuple[int, ...]]]:
        if save.source != DEVICE:
            return self.tiers[save.source][int(save.blocks[0][i])]
        return [dict(memory[int(blocks[i])]) for memory, blocks in zip(self.memory, save.blocks, strict=True)]

    def _run(self, plan: StepPlan) -> StepOutcome:
        assert plan.counts.sum() <= self.config.max_step_tokens
        assert len(set(plan.slots.tolist())) == len(plan.slots)
        ids = deque(plan.token_ids.tolist() if self.config.token_ids else [0] * int(plan.counts.sum()))
        written: dict[tuple[int, int], int] = {}
        work = []
        for slot, start, count in zip(plan.slots.tolist(), plan.starts.tolist(), plan.counts.tolist(), strict=True):
            row = self.rows[slot]
            given = [ids.popleft() for _ in range(count)]
            given = [row.token_at(start) if token == IN_FLIGHT else token for token in given]
            context = ([*row.tokens, *[0] * start][:start] + given)[: start + count]
            if self._reads_tables:
                self._write(slot, start, context, written)
            work.append((slot, start, count, context))
        assert not ids
        self.computed_tokens += int(plan.counts.sum())
        for slot, start, count, context in work:
            if self._reads_tables and not self.rows[slot].failed:
                self._check_reads(slot, start, count, context)
        return self._draw(plan, work)

    def _write(self, slot: int, start: int, context: list[int], written: dict[tuple[int, int], int]) -> None:
        size = self.config.block_size
        for g, group in enumerate(self.config.groups):
            for position in range(start, len(context)):
                index, offset = (0, 0) if group.kind == "state" else divmod(position, size)
                block = int(self.tables[g][slot, index])
                assert block >= 0, "a token has no block"
                assert written.setdefault((g, block), slot) == slot, "two rows write one block"
                self.memory[g].setdefault(block, {})[offset] = tuple(context[: position + 1])

    def _check_reads(self, slot: int, start: int, count: int, context: list[int]) -> None:
        size = self.config.block_size
        for g, group in enumerate(self.config.groups):
            if group.kind == "state":
                continue
            first = max(0, start - group.window + 1) if group.window else 0
            for position in range(first, start + count):
                block = int(self.tables[g][slot, position // size])
                stored = self.memory[g].get(block, {}).get(position % size)
                assert stored == tuple(context[: position + 1]), f"group {g}: position {position} holds another's KV"

    def _draw(self, plan: StepPlan, work: list[tuple[int, int, int, list[int]]]) -> StepOutcome:
        tokens: list[int] = []
        accepted: list[int] = []
        for (slot, start, count, context), drafts, draws in zip(
            work, plan.drafts.tolist(), plan.samples.tolist(), strict=True
        ):
            row = self.rows[slot]
            if not draws:
                continue
            end = start + count - drafts
            drawn = [self.script(row.request_id, end)]
            while len(drawn) <= drafts and context[end + len(drawn) - 1] == drawn[-1]:
                drawn.append(self.script(row.request_id, end + len(drawn)))
            accepted.append(len(drawn) - 1)
            row.tokens = [*row.tokens, *[0] * end][:end] + (drawn if self.config.token_ids else [0] * len(drawn))
            tokens += drawn
        failed = [slot for slot in plan.slots.tolist() if slot in self.bad_slots]
        return StepOutcome(
            plan.number,
            np.array(tokens, np.int64),
            accepted=np.array(accepted, np.int64) if plan.drafts.any() else None,
            device_ns=self.device_ns,
            failed=np.array(failed, np.int64) if failed else None,
        )
