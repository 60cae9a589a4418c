"""One session being written: when its calls come, how long they are, and what they share with those before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.workload.call import Call, Session
from headway.workload.lengths import Distribution, Floats
from headway.workload.presets import SessionPreset
from headway.workload.streams import Streams
from headway.workload.sub_agents import Reports, SubAgents
from headway.workload.synthetic import HASH_BLOCK_SIZE

SHARED_PART = 8
"""Of a context: an eighth of it may be shared."""
MAX_CALLS = 5000
"""A session is cut after this many calls, which is some 200 times the median of agents."""
MOST_DRAWN = 1_000_000
"""Tokens, or seconds (11 days): what is drawn beyond from a distribution that was given is cut to this."""


@dataclass(frozen=True, slots=True)
class Given:
    """What takes a preset's place; None: as in the preset. What is given changes nothing but itself, unless it changes
    the number of calls.
    """

    turns: Distribution | None = None
    calls_per_turn: Distribution | None = None
    think_s: Distribution | None = None
    tool_s: Distribution | None = None
    first_tokens: Distribution | None = None
    """Of a session's first prompt, behind the shared prefix."""
    message_tokens: Distribution | None = None
    """That a human's later message adds; of `chat` the first too."""
    tool_tokens: Distribution | None = None
    """That a tool's result adds."""
    answer_tokens: Distribution | None = None
    thinking_tokens: Distribution | None = None
    """Written before each answer, and left out of the prompts that follow. None: none."""
    compact_at: int | None = None
    """No prompt of a main agent is longer: its context becomes a summary first. None: by chance, near the limit."""


AS_THE_PRESET = Given()


@dataclass(frozen=True, slots=True)
class _Drawn:
    """By call of a session."""

    added: list[int]
    answers: list[int]
    thinking: list[int]
    gaps_s: list[float]


class Dialogue:
    """Ids of blocks: the shared prefix counts from 0, a session's own from its number."""

    def __init__(
        self,
        preset: SessionPreset,
        given: Given,
        number: int,
        streams: Streams,
        *,
        max_context: int,
        shared_tokens: int | None,
        sub_agents: float,
        fork: bool,
    ) -> None:
        self.preset = preset
        self.given = given
        self.number = number
        self.streams = streams
        self.rng = rng = streams.of(f"session {number}")
        shares, limits = zip(*preset.limits, strict=True)
        self.limit = min(int(limits[rng.choice(len(limits), p=shares)]), max_context)
        self.shared = self._most_shared() if shared_tokens is None else shared_tokens
        self.ids = list(range(self.shared // HASH_BLOCK_SIZE))
        self._next_id = (number + 1) << 32
        others = streams.of(f"sub-agents {number}")
        self._sub_agents = SubAgents(sub_agents, fork, self.limit, HASH_BLOCK_SIZE, self._new_id, others)

    def calls(self, start_s: float) -> Session:
        turns = [turn for turn, calls in enumerate(self._calls_per_turn()) for _ in range(calls)][:MAX_CALLS]
        drawn = self._drawn(turns)
        context, compacts_at = self._first_context(drawn.added[0]), self._compaction_point()
        calls: list[Call] = []
        reports: Reports | None = None
        for i, turn in enumerate(turns):
            if i:
                context += drawn.added[i] + (reports.tokens if reports else 0)
            output = drawn.answers[i] + drawn.thinking[i]
            room = self.limit - max(1, min(output, self.limit // 4))
            if context > min(compacts_at, room):
                context, compacts_at = self._compacted(room), self._compaction_point()
            output = max(1, min(output, self.limit - context))
            thinking = min(drawn.thinking[i], output - 1)
            gap_s = drawn.gaps_s[i] if i else 0.0
            calls.append(self._call(i, turn, context, output, thinking, gap_s, start_s, reports))
            context += output - thinking
            goes_on = turns[i + 1 : i + 2] == [turn]
            reports = self._sub_agents.after(calls[-1], len(calls) - 1) if goes_on else None
            calls += reports.calls if reports else ()
        return calls

    def _calls_per_turn(self) -> list[int]:
        drawn_turns = self._draw("turns", self.preset.turns, self.given.turns, 1)
        turns = int(min(MAX_CALLS, max(1, round(drawn_turns[0]))))
        extra = np.minimum(self.preset.extra_calls.draw(self.rng, turns), MAX_CALLS)
        if self.given.calls_per_turn is not None:
            return [max(1, round(calls)) for calls in self._given("calls_per_turn", self.given.calls_per_turn, turns)]
        return [1 + round(each) for each in extra]

    def _drawn(self, turns: list[int]) -> _Drawn:
        preset, given, total = self.preset, self.given, len(turns)
        added = self._draw("tool_tokens", preset.added, given.tool_tokens, total)
        output = self._draw("answer_tokens", preset.output, given.answer_tokens, total)
        tool_s = self._draw("tool_s", preset.tool_s, given.tool_s, total)
        think_s = self._draw("think_s", preset.think_s, given.think_s, total)
        message = given.message_tokens or preset.message
        messages = added if message is None else self._given("message_tokens", message, total)
        thinking = [0.0] * total
        if given.thinking_tokens is not None:
            thinking = self._given("thinking_tokens", given.thinking_tokens, total)
        asks = [not i or turn != turns[i - 1] for i, turn in enumerate(turns)]
        return _Drawn(
            [max(1, round(messages[i] if ask else added[i])) for i, ask in enumerate(asks)],
            [round(answer) for answer in output],
            [round(tokens) for tokens in thinking],
            [think_s[i] if ask else tool_s[i] for i, ask in enumerate(asks)],
        )

    def _call(
        self,
        i: int,
        turn: int,
        context: int,
        output: int,
        thinking: int,
        gap_s: float,
        start_s: float,
        reports: Reports | None,
    ) -> Call:
        blocks = context // HASH_BLOCK_SIZE
        while len(self.ids) < blocks:
            self.ids.append(self._new_id())
        return Call(
            id=f"s{self.number}.{i}",
            num_input_tokens=context,
            num_output_tokens=output,
            num_thinking_tokens=thinking,
            session=f"s{self.number}",
            turn=turn,
            arrival_s=None if i else start_s,
            after=reports.last if reports else None,
            gap_s=gap_s,
            hash_ids=tuple(self.ids[:blocks]),
        )

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _most_shared(self) -> int:
        compacted = self.limit if self.given.compact_at is None else self.given.compact_at
        return min(self.preset.shared_tokens, self.limit // SHARED_PART, compacted // 2)

    def _first_context(self, message: int) -> int:
        first = self.preset.first_context
        drawn = None if first is None else first.draw(self.rng, 1)[0]
        if self.given.first_tokens is not None:
            return self.shared + max(1, round(self._given("first_tokens", self.given.first_tokens, 1)[0]))
        return self.shared + message if drawn is None else max(self.shared + 1, round(drawn))

    def _compaction_point(self) -> int:
        by_chance = int(self.limit * self.rng.uniform(0.75, 1.0))
        return by_chance if self.given.compact_at is None else self.given.compact_at

    def _compacted(self, room: int) -> int:
        """The new context: a summary of some fifth, which shares only the common prefix with the old one."""
        del self.ids[self.shared // HASH_BLOCK_SIZE :]
        part, compact_at = 0.2 * self.rng.uniform(0.6, 1.6), self.given.compact_at
        if compact_at is None:
            return max(1, min(int(self.limit * part), room))
        return self.shared + max(1, int((compact_at - self.shared) * part))

    def _draw(self, name: str, preset: Distribution, given: Distribution | None, count: int) -> list[float]:
        """The preset's part of the session's stream is drawn in any case: what is drawn behind it stays as it was."""
        drawn = preset.draw(self.rng, count)
        return _listed(drawn) if given is None else self._given(name, given, count)

    def _given(self, name: str, distribution: Distribution, count: int) -> list[float]:
        drawn = distribution.draw(self.streams.of(f"{name} {self.number}"), count)
        return _listed(np.minimum(drawn, MOST_DRAWN))


def _listed(drawn: Floats) -> list[float]:
    return [float(x) for x in drawn.tolist()]
