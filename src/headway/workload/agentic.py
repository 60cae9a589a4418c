"""Coding agents: sessions of turns of calls, whose context grows until it is compacted. Tails are heavy.

The two presets reproduce two published measurements and are not mixed: `coding_agent` the coding-agent sessions of
callanjfox/kv-cache-tester, `tracelab` the figures of TraceLab (University of Washington, arXiv 2606.30560).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from headway.workload.arrivals import arrivals
from headway.workload.call import Call, Session, Workload, WorkloadError
from headway.workload.lengths import Distribution, Fixed, LogNormal, Mixture, mixture
from headway.workload.streams import Streams
from headway.workload.sub_agents import Reports, SubAgents
from headway.workload.synthetic import HASH_BLOCK_SIZE, check_concurrency


@dataclass(frozen=True, slots=True)
class AgentPreset:
    """Times in seconds, lengths in tokens. A session makes `turns`, each of one call and `extra_calls` more."""

    name: str
    turns: Distribution
    extra_calls: Distribution
    think_s: Distribution
    tool_s: Distribution
    first_context: Distribution
    added: Distribution
    output: Distribution
    limits: tuple[tuple[float, int], ...]
    """(share of sessions, context limit)."""


_NOTHING = Fixed(0.0)
PRESETS = {
    preset.name: preset
    for preset in (
        AgentPreset(
            "coding_agent",
            turns=LogNormal(3.3, 1.17),
            extra_calls=Mixture(((0.40, _NOTHING), (0.60, LogNormal(6.6, 1.28)))),
            think_s=mixture((0.285, 13.2, 0.97), (0.483, 119, 0.77), (0.228, 1084, 1.0), (0.004, 30_000, 0.6)),
            tool_s=mixture((0.62, 6.4, 0.45), (0.29, 19, 0.8), (0.08, 110, 1.0), (0.01, 1200, 1.2)),
            first_context=mixture((0.7, 21_000, 0.28), (0.3, 110_000, 0.5)),
            added=mixture((0.52, 300, 0.75), (0.38, 800, 1.0), (0.10, 4500, 1.0)),
            output=mixture((0.6, 150, 0.35), (0.4, 500, 0.95)),
            limits=((0.9, 200_000), (0.1, 900_000)),
        ),
        AgentPreset(
            "tracelab",
            turns=Mixture(((0.53, Fixed(1.0)), (0.47, LogNormal(4.85, 1.646)))),
            extra_calls=Mixture(((0.42, _NOTHING), (0.58, LogNormal(5.0, 1.42)))),
            think_s=mixture((0.31, 10.5, 1.0), (0.47, 95, 0.95), (0.187, 760, 1.0), (0.033, 26_000, 1.4)),
            tool_s=mixture((0.60, 0.12, 1.3), (0.28, 2.8, 0.7), (0.085, 22, 0.5), (0.035, 190, 1.2)),
            first_context=LogNormal(26_000, 0.45),
            added=mixture((0.50, 380, 0.8), (0.38, 900, 1.0), (0.12, 4500, 1.1)),
            output=mixture((0.6, 150, 0.8), (0.4, 480, 1.15)),
            limits=((0.75, 258_000), (0.25, 900_000)),
        ),
    )
}
SHARED_TOKENS = 14_000
SHARED_PART = 8
"""Of a context: an eighth of it may be shared."""
MAX_CALLS = 5000
"""A session is cut after this many calls, which is some 200 times the median."""


@dataclass(frozen=True, slots=True)
class Agentic:
    preset: str
    num_sessions: int
    rate_per_s: float = 0.01
    """Sessions that start in a second."""
    arrivals: str = "poisson"
    cv: float = 1.0
    concurrency: int | None = None
    shared_tokens: int | None = None
    """Tools and system prompt: the prefix that all sessions have in common, at most an eighth of the smallest context.
    None: SHARED_TOKENS, or an eighth of a session's context where that is less.
    """
    max_context: int = 1_000_000
    """No limit of a session is above this."""
    sub_agents: float = 0.0
    """Share of the calls followed by a tool that start sub-agents. The presets' figures are of main agents alone."""
    fork: bool = False
    """Sub-agents go on from their parent's prompt, not from a short one of their own."""

    def workload(self, seed: int) -> Workload:
        """Raises WorkloadError for an unknown preset or numbers that make no sense."""
        if self.preset not in PRESETS:
            raise WorkloadError(f"agents must be one of {', '.join(PRESETS)}, not {self.preset!r}")
        for field, least in (("num_sessions", 1), ("max_context", 16)):
            if getattr(self, field) < least:
                raise WorkloadError(f"{field} must be at least {least}, not {getattr(self, field)}")
        most = min(self.max_context, *(limit for _, limit in PRESETS[self.preset].limits)) // SHARED_PART
        if self.shared_tokens is not None and not 0 <= self.shared_tokens <= most:
            raise WorkloadError(
                f"shared_tokens must be between 0 and {most:,}, an eighth of the context, not {self.shared_tokens:,}"
            )
        if not 0 <= self.sub_agents <= 1:
            raise WorkloadError(f"sub_agents must be a share from 0 to 1, not {self.sub_agents}")
        check_concurrency(self.concurrency)
        starts = arrivals(self.arrivals, self.rate_per_s, Streams(seed).of("arrivals"), self.cv)
        sessions = islice(self._sessions(seed, starts), self.num_sessions)
        return Workload(self.preset, sessions, HASH_BLOCK_SIZE, self.concurrency)

    def _sessions(self, seed: int, starts: Iterator[float]) -> Iterator[Session]:
        preset = PRESETS[self.preset]
        for number in count():
            streams = Streams(seed)
            start_s = 0.0 if self.concurrency else next(starts)
            yield _Dialogue(preset, self, number, streams).calls(start_s)


class _Dialogue:
    """One session being written. Ids of blocks: the shared prefix counts from 0, a session's own from its number."""

    def __init__(self, preset: AgentPreset, settings: Agentic, number: int, streams: Streams) -> None:
        self.preset = preset
        self.number = number
        self.rng = rng = streams.of(f"session {number}")
        shares, limits = zip(*preset.limits, strict=True)
        self.limit = min(int(limits[rng.choice(len(limits), p=shares)]), settings.max_context)
        most_shared = min(SHARED_TOKENS, self.limit // SHARED_PART)
        self.shared = most_shared if settings.shared_tokens is None else settings.shared_tokens
        self.ids = list(range(self.shared // HASH_BLOCK_SIZE))
        self._next_id = (number + 1) << 32
        others = streams.of(f"sub-agents {number}")
        self._sub_agents = SubAgents(
            settings.sub_agents, settings.fork, self.limit, HASH_BLOCK_SIZE, self._new_id, others
        )

    def calls(self, start_s: float) -> Session:
        turns = [turn for turn, calls in enumerate(self._calls_per_turn()) for _ in range(calls)][:MAX_CALLS]
        preset, total = self.preset, len(turns)
        added, output = self._draw(preset.added, total), self._draw(preset.output, total)
        tool_s, think_s = self._draw(preset.tool_s, total), self._draw(preset.think_s, total)
        context, compacts_at = self._first_context(), self._compaction_point()
        calls: list[Call] = []
        reports: Reports | None = None
        for i, turn in enumerate(turns):
            if i:
                context += max(1, round(added[i])) + (reports.tokens if reports else 0)
            room = self.limit - max(1, min(round(output[i]), self.limit // 4))
            if context > min(compacts_at, room):
                context, compacts_at = self._compacted(room), self._compaction_point()
            num_output = max(1, min(round(output[i]), self.limit - context))
            gap_s = think_s[i] if i and turn != turns[i - 1] else tool_s[i]
            calls.append(self._call(i, turn, context, num_output, gap_s, start_s, reports))
            context += num_output
            goes_on = turns[i + 1 : i + 2] == [turn]
            reports = self._sub_agents.after(calls[-1], len(calls) - 1) if goes_on else None
            calls += reports.calls if reports else ()
        return calls

    def _calls_per_turn(self) -> list[int]:
        turns = int(min(MAX_CALLS, max(1, round(self._draw(self.preset.turns, 1)[0]))))
        return [1 + round(extra) for extra in np.minimum(self._draw(self.preset.extra_calls, turns), MAX_CALLS)]

    def _call(
        self, i: int, turn: int, context: int, output: int, gap_s: float, start_s: float, reports: Reports | None
    ) -> Call:
        blocks = context // HASH_BLOCK_SIZE
        while len(self.ids) < blocks:
            self.ids.append(self._new_id())
        return Call(
            id=f"s{self.number}.{i}",
            num_input_tokens=context,
            num_output_tokens=output,
            session=f"s{self.number}",
            turn=turn,
            arrival_s=None if i else start_s,
            after=reports.last if reports else None,
            gap_s=gap_s if i else 0.0,
            hash_ids=tuple(self.ids[:blocks]),
        )

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _first_context(self) -> int:
        return max(self.shared + 1, round(self._draw(self.preset.first_context, 1)[0]))

    def _compaction_point(self) -> int:
        return int(self.limit * self.rng.uniform(0.75, 1.0))

    def _compacted(self, room: int) -> int:
        """The new context: a summary, which shares only the common prefix with the old one."""
        del self.ids[self.shared // HASH_BLOCK_SIZE :]
        return max(1, min(int(0.2 * self.limit * self.rng.uniform(0.6, 1.6)), room))

    def _draw(self, distribution: Distribution, count: int) -> list[float]:
        return [float(x) for x in distribution.draw(self.rng, count).tolist()]
