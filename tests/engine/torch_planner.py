"""A planner for tests: gives rows slots and blocks, and makes the plans that a test spells out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headway.engine.kv_cache import LayerGroup
from headway.scheduler.contract import Admitted, StepOutcome, StepPlan, TableChange, ints
from headway.scheduler.request import Request, Sampling


@dataclass
class Row:
    slot: int
    request: Request
    tokens: list[int]
    computed: int = 0
    indices: list[int] = field(default_factory=list)
    """Blocks held, of each group."""


@dataclass
class Part:
    """What a row does in a step: `count` tokens that are not computed yet, then `drafts`."""

    row: Row
    count: int
    drafts: Sequence[int] = ()
    samples: bool = False
    in_flight: bool = False


class Planner:
    """Blocks come from a shuffled pool; behind a window they are handed out again at once."""

    def __init__(
        self, executor, groups: Sequence[LayerGroup], num_blocks: Sequence[int], block_size: int, seed: int = 0
    ):
        self.executor, self.groups, self.block_size = executor, groups, block_size
        shuffle = np.random.default_rng(seed).permutation
        self.free = [list(map(int, shuffle(n))) for n in num_blocks]
        self.held = [{} for _ in groups]
        self.number = 0
        self.slots = 0
        self.admitted: list[Admitted] = []
        self.released: list[int] = []

    def admit(
        self, tokens: Sequence[int], sampling: Sampling | None = None, *, prompt=None, slot=None, max_tokens=1000
    ) -> Row:
        slot = self.slots if slot is None else slot
        self.slots = max(self.slots, slot + 1)
        request = Request(
            id=f"r{slot}",
            num_prompt_tokens=len(tokens) if prompt is None else prompt,
            max_tokens=max_tokens,
            tokens=np.array(tokens, np.int64),
            sampling=sampling or Sampling(),
        )
        self.admitted.append(Admitted(slot, request, np.array(tokens, np.int64), 0))
        return Row(slot, request, list(tokens), 0, [0] * len(self.groups))

    def release(self, row: Row) -> None:
        self.released.append(row.slot)
        for g, held in enumerate(self.held):
            for key in [key for key in held if key[0] == row.slot]:
                self.free[g].insert(0, held.pop(key))

    def plan(self, parts: Sequence[Part]) -> StepPlan:
        changes = tuple(self._changes(g, parts) for g in range(len(self.groups)))
        token_ids = [t for part in parts for t in self._ids(part)]
        self.number += 1
        plan = StepPlan(
            number=self.number,
            slots=ints(*(p.row.slot for p in parts)),
            starts=ints(*(p.row.computed for p in parts)),
            counts=ints(*(p.count + len(p.drafts) for p in parts)),
            drafts=ints(*(len(p.drafts) for p in parts)),
            samples=np.array([p.samples for p in parts], np.bool_),
            token_ids=ints(*token_ids),
            released=ints(*self.released),
            admitted=tuple(self.admitted),
            blocks=changes,
            loads=(),
            saves=(),
            prefix_groups=(),
            repeats=1,
        )
        self.admitted, self.released = [], []
        return plan

    def step(self, parts: Sequence[Part]) -> StepOutcome:
        self.executor.submit(self.plan(parts))
        outcome = self.executor.collect()
        if outcome.error is None:
            self.commit(parts, outcome)
        return outcome

    def commit(self, parts: Sequence[Part], outcome: StepOutcome) -> None:
        drawn, accepted = (
            outcome.token_ids.tolist(),
            iter((outcome.accepted if outcome.accepted is not None else ints()).tolist()),
        )
        for part in parts:
            part.row.computed += part.count
            if part.samples:
                taken = next(accepted, 0)
                part.row.tokens += drawn[: taken + 1]
                part.row.computed += taken
                del drawn[: taken + 1]
        assert not drawn

    def prefill(self, rows: Sequence[Row], chunk: int = 10_000) -> None:
        """Computes all known tokens in chunks; the last one samples."""
        while parts := [self._chunk(row, chunk) for row in rows if row.computed < len(row.tokens)]:
            self.step(parts)
            rows = [row for part, row in ((p, p.row) for p in parts) if not part.samples]

    def decode(self, rows: Sequence[Row], steps: int) -> None:
        for _ in range(steps):
            self.step([Part(row, 1, samples=True) for row in rows])

    def generate(
        self, prompts: Sequence[Sequence[int]], steps: int, sampling: Sampling | None = None, chunk: int = 10_000
    ) -> list[list[int]]:
        """Tokens drawn for each prompt, all rows together."""
        rows = [self.admit(prompt, sampling) for prompt in prompts]
        self.prefill(rows, chunk)
        self.decode(rows, steps - 1)
        for row in rows:
            self.release(row)
        return [row.tokens[len(prompt) :] for row, prompt in zip(rows, prompts, strict=True)]

    def _chunk(self, row: Row, chunk: int) -> Part:
        count = min(chunk, len(row.tokens) - row.computed)
        return Part(row, count, samples=row.computed + count == len(row.tokens))

    def _ids(self, part: Part) -> list[int]:
        row = part.row
        known = row.tokens[row.computed : row.computed + part.count]
        return ([-1] if part.in_flight else known) + list(part.drafts)

    def _changes(self, g: int, parts: Sequence[Part]) -> TableChange:
        slots, indices, blocks = [], [], []
        for part in parts:
            end = part.row.computed + part.count + len(part.drafts)
            self._drop_behind_window(g, part.row)
            for index in range(part.row.indices[g], -(-end // self.block_size)):
                block = self.free[g].pop(0)
                self.held[g][part.row.slot, index] = block
                slots.append(part.row.slot)
                indices.append(index)
                blocks.append(block)
                part.row.indices[g] = index + 1
        return TableChange(ints(*slots), ints(*indices), ints(*blocks))

    def _drop_behind_window(self, g: int, row: Row) -> None:
        window = self.groups[g].window
        if window:
            first = max(0, row.computed - window + 1) // self.block_size
            for key in [key for key in self.held[g] if key[0] == row.slot and key[1] < first]:
                self.free[g].insert(0, self.held[g].pop(key))
