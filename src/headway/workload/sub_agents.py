"""Sub-agents: a call starts one to three of them side by side, and its parent's next call waits for their reports.

Figures: the 43 sub-agents in the coding-agent sessions of callanjfox/kv-cache-tester at 94f6046, which 24 of 22,739
calls started. None of them began with its parent's prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.workload.call import Call
from headway.workload.lengths import LogNormal, mixture, whole

_AT_ONCE = (0.46, 0.29, 0.25)
"""Shares of calls that start one, two and three."""
_CALLS = LogNormal(10.5, 0.5)
_DELAY_S = LogNormal(0.6, 0.5)
_TOOL_S = mixture((0.75, 3.2, 0.4), (0.25, 15, 0.9))
_TASK = LogNormal(400, 0.7)
"""Tokens behind the prompt that all sub-agents share."""
_ADDED = LogNormal(2100, 1.5)
_OUTPUT = LogNormal(228, 0.35)
_REPORT = LogNormal(2975, 0.4)
"""Tokens of a sub-agent's last answer."""
MAX_CALLS = 100
PROMPT_TOKENS = 10_000
"""Tools and system prompt of sub-agents: their own, the same in all sessions."""
_PROMPT_IDS = 1 << 61


@dataclass(frozen=True, slots=True)
class Reports:
    """What a call's sub-agents did, and what their parent gets of it."""

    calls: tuple[Call, ...]
    last: tuple[int, ...]
    """Numbers of their last calls, within the session."""
    tokens: int


class SubAgents:
    """Those of one session."""

    def __init__(
        self, share: float, fork: bool, limit: int, block_size: int, new_id: Callable[[], int], rng: np.random.Generator
    ) -> None:
        """`share` of calls start some. `fork`: they go on from their parent's prompt, not from one of their own.
        `limit`: of tokens in a context.
        """
        self._share = share
        self._fork = fork
        self._limit = limit
        self._block_size = block_size
        self._new_id = new_id
        self._rng = rng
        self._num_agents = 0

    def after(self, parent: Call, number: int) -> Reports | None:
        """`number` of the parent's call; sub-agents' calls have the numbers behind it."""
        if self._rng.uniform() >= self._share:
            return None
        calls: list[Call] = []
        last: list[int] = []
        for _ in range(1 + int(self._rng.choice(len(_AT_ONCE), p=_AT_ONCE))):
            self._num_agents += 1
            calls += self._agent(parent, number)
            last.append(number + len(calls))
        ends = [calls[n - number - 1] for n in last]
        return Reports(tuple(calls), tuple(last), sum(call.num_output_tokens for call in ends))

    def _agent(self, parent: Call, number: int) -> list[Call]:
        count = whole(_CALLS, self._rng, 1, MAX_CALLS)[0]
        added, output = (whole(d, self._rng, count, self._limit // 8) for d in (_ADDED, _OUTPUT))
        output[-1] = whole(_REPORT, self._rng, 1, self._limit // 8)[0]
        tool_s = _TOOL_S.draw(self._rng, count).tolist()
        start_s = float(_DELAY_S.draw(self._rng, 1)[0])
        ids, context = self._prompt(parent)
        context += whole(_TASK, self._rng, 1, self._limit // 8)[0]
        calls: list[Call] = []
        for i in range(count):
            if i and context + added[i] + output[i] > self._limit:
                break
            context += added[i] if i else 0
            ids += [self._new_id() for _ in range(context // self._block_size - len(ids))]
            calls.append(
                Call(
                    id=f"{parent.id}.a{self._num_agents}.{i}",
                    num_input_tokens=context,
                    num_output_tokens=output[i],
                    session=parent.session,
                    turn=parent.turn,
                    agent=self._num_agents,
                    arrival_s=None,
                    after=None if i else (number,),
                    gap_s=float(tool_s[i]) if i else start_s,
                    hash_ids=tuple(ids),
                )
            )
            context += output[i]
        return calls

    def _prompt(self, parent: Call) -> tuple[list[int], int]:
        """Block ids and tokens that it begins with."""
        if self._fork:
            room = min(parent.num_input_tokens, self._limit // 2) // self._block_size
            return list(parent.hash_ids[:room]), room * self._block_size
        blocks = min(PROMPT_TOKENS, self._limit // 4) // self._block_size
        return list(range(_PROMPT_IDS, _PROMPT_IDS + blocks)), blocks * self._block_size
