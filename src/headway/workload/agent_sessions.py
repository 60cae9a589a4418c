"""The compact form of recorded coding-agent sessions: one session a line, block ids run-length coded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from headway.workload.arrivals import arrivals
from headway.workload.call import Call, Session, Workload, WorkloadError
from headway.workload.lines import read_json_rows, where
from headway.workload.streams import Streams

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
MAX_BLOCKS = 1 << 22
"""Of one prompt: some 268 million tokens."""
MAX_DEPTH = 8
"""Of sub-agents within sub-agents."""


class CallRow(msgspec.Struct, frozen=True):
    """A call, or (`ty` subagent) a sub-agent with calls of its own in `r`, whose times count from its start."""

    t: Seconds
    input: Count = msgspec.field(name="in", default=0)
    out: Count = 0
    h: tuple[Count, ...] = ()
    it: str = ""
    ty: str = "n"
    m: str = ""
    api: Seconds | None = None
    think: float | None = None
    r: tuple[CallRow, ...] = ()
    dur_ms: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None

    @property
    def is_agent(self) -> bool:
        return bool(self.r)

    @property
    def start_s(self) -> float:
        """A sub-agent that was waited for is noted when it ends, one in the background (no `dur_ms`) when it starts."""
        return self.t if self.dur_ms is None else self.t - self.dur_ms / 1000


class SessionRow(msgspec.Struct, frozen=True):
    id: str
    bs: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    r: tuple[CallRow, ...]
    tool_tokens: Count = 0
    system_tokens: Count = 0


def read_agent_sessions(path: Path, rate_per_s: float = 0.05, seed: int = 0) -> Workload:
    """Sessions have no start of their own: they arrive as a Poisson process. Within a session calls are closed loop,
    and a gap is the time from the end of one call (`api` after its start) to the start of the next. A sub-agent starts
    after the call before it; the next call of its parent waits for it, unless it runs in the background. Sessions with
    the same lengths of tools and system prompt share those blocks. Raises WorkloadError when a bad row is reached.
    """
    first = next(read_json_rows(path, SessionRow))[1]
    starts = arrivals("poisson", rate_per_s, Streams(seed).of("arrivals"))
    return Workload("coding_agent_sessions", _sessions(path, starts, first.bs), first.bs)


def _sessions(path: Path, starts: Iterator[float], block_size: int) -> Iterator[Session]:
    prefixes: dict[tuple[int, int], int] = {}
    rows: dict[str, int] = {}
    """By the session's id."""
    any_calls = False
    for number, row in read_json_rows(path, SessionRow):
        place = where(path, number)
        if row.bs != block_size:
            raise WorkloadError(f"{place}: bs is {row.bs}, and {block_size} in the first row")
        if row.id in rows:
            raise WorkloadError(f"{place}: id {row.id[:40]!r} is that of row {rows[row.id]}")
        rows[row.id] = number
        own = next((call for call in row.r if call.input and not call.is_agent), None)
        if own is not None:
            prefix = prefixes.setdefault((row.tool_tokens, row.system_tokens), len(prefixes))
            shared = (row.tool_tokens + row.system_tokens) // block_size
            names = _Names(number, prefix, shared, own.h[:1], place)
            any_calls = True
            yield _Recorded(row, next(starts), names, place).calls
    if not any_calls:
        raise WorkloadError(f"{place}: no session up to here has a call of its own")


class _Names:
    """Ids that are local to a session become global; those of the shared prefix become the prefix's."""

    def __init__(self, number: int, prefix: int, shared: int, first: tuple[int, ...], place: str) -> None:
        """`first`: the id that the prefix begins with; sub-agents may begin with another."""
        self._base = (1 << 61) + (number << 32)
        self._prefix = prefix << 32
        self._shared = shared
        self._first = first
        self._place = place

    def expand(self, runs: tuple[int, ...], blocks: int) -> tuple[int, ...]:
        """[start, length, start, length, …] → at most `blocks` ids."""
        if len(runs) % 2 or sum(runs[1::2]) > MAX_BLOCKS:
            raise WorkloadError(f"{self._place}: h must be pairs of start and length, of {MAX_BLOCKS} blocks at most")
        ids = [i for start, length in zip(runs[::2], runs[1::2], strict=True) for i in range(start, start + length)]
        shared = min(self._shared, len(ids), blocks) if runs[:1] == self._first else 0
        return (*(self._prefix + i for i in range(shared)), *(self._base + i for i in ids[shared:blocks]))


class _Recorded:
    """A session's calls, each behind those that it waits for."""

    def __init__(self, row: SessionRow, start_s: float, names: _Names, place: str) -> None:
        self._row = row
        self._start_s = start_s
        self._names = names
        self._place = place
        self._turn = 0
        self._num_agents = 0
        self.calls: list[Call] = []
        self._thread(row.r, None, 0.0, 0)

    def _thread(self, rows: tuple[CallRow, ...], parent: int | None, gap_s: float, depth: int) -> int | None:
        """One agent's calls, the first `gap_s` after its parent's; the number of the last."""
        if depth > MAX_DEPTH:
            raise WorkloadError(f"{self._place}: sub-agents within sub-agents, more than {MAX_DEPTH} deep")
        agent, last, last_end_s = self._num_agents, parent, 0.0
        begun_s: float | None = None
        joins: list[tuple[int, float]] = []
        for row in rows:
            if row.is_agent:
                number = self._sub_agent(row, last, max(0.0, row.start_s - last_end_s), depth)
                if number is not None and row.dur_ms is not None:
                    joins.append((number, row.t))
                continue
            if not row.input or row.ty not in ("n", "s"):
                continue
            if begun_s is not None and row.t < begun_s:
                raise WorkloadError(f"{self._place}: a call of the session starts before the one before it")
            if begun_s is not None:
                gap_s = max(0.0, row.t - max([last_end_s, *(end_s for _, end_s in joins)]))
                self._turn += not depth and row.it == "h"
            waits = [number for number, _ in joins] or ([] if last is None else [last])
            last = self._add(row, agent, tuple(waits), gap_s)
            begun_s, last_end_s, joins = row.t, row.t + (row.api or 0.0), []
        return last

    def _sub_agent(self, row: CallRow, parent: int | None, gap_s: float, depth: int) -> int | None:
        self._num_agents += 1
        last = self._thread(row.r, parent, gap_s, depth + 1)
        return None if last == parent else last

    def _add(self, row: CallRow, agent: int, waits: tuple[int, ...], gap_s: float) -> int:
        number = len(self.calls)
        self.calls.append(
            Call(
                id=f"{self._row.id}.{number}",
                num_input_tokens=row.input,
                num_output_tokens=max(1, row.out),
                session=self._row.id,
                turn=self._turn,
                model=row.m,
                agent=agent,
                arrival_s=None if number else self._start_s,
                after=None if waits in ((), (number - 1,)) else waits,
                gap_s=gap_s,
                hash_ids=self._names.expand(row.h, -(-row.input // self._row.bs)),
                was_empty=not row.out,
            )
        )
        return number
