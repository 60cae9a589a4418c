"""The compact form of recorded coding-agent sessions: one session a line, block ids run-length coded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
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


class CallRow(msgspec.Struct, frozen=True):
    t: Seconds
    input: Count = msgspec.field(name="in", default=0)
    out: Count = 0
    h: tuple[Count, ...] = ()
    it: str = ""
    ty: str = "n"
    api: Seconds | None = None
    think: float | None = None


class SessionRow(msgspec.Struct, frozen=True):
    id: str
    bs: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    r: tuple[CallRow, ...]
    tool_tokens: Count = 0
    system_tokens: Count = 0


def read_agent_sessions(path: Path, rate_per_s: float = 0.05, seed: int = 0) -> Workload:
    """Sessions have no start of their own: they arrive as a Poisson process. Within a session calls are closed loop,
    and a gap is the time from the end of one call (`api` after its start) to the start of the next. Sub-agents' calls
    have a clock of their own and are left out. Sessions with the same lengths of tools and system prompt share those
    blocks. Raises WorkloadError when a bad row is reached.
    """
    first = next(read_json_rows(path, SessionRow))[1]
    starts = arrivals("poisson", rate_per_s, Streams(seed).of("arrivals"))
    return Workload("coding_agent_sessions", _sessions(path, starts, first.bs), first.bs)


def _sessions(path: Path, starts: Iterator[float], block_size: int) -> Iterator[Session]:
    prefixes: dict[tuple[int, int], int] = {}
    for number, row in read_json_rows(path, SessionRow):
        if row.bs != block_size:
            raise WorkloadError(f"{where(path, number)}: bs is {row.bs}, and {block_size} in the first row")
        rows = [call for call in row.r if call.ty in ("n", "s") and call.input]
        if any(b.t < a.t for a, b in pairwise(rows)):
            raise WorkloadError(f"{where(path, number)}: a call of the session starts before the one before it")
        if rows:
            prefix = prefixes.setdefault((row.tool_tokens, row.system_tokens), len(prefixes))
            shared = (row.tool_tokens + row.system_tokens) // block_size
            yield _calls(row, rows, next(starts), _Names(number, prefix, shared), where(path, number))


class _Names:
    """Ids that are local to a session become global; those of the shared prefix become the prefix's."""

    def __init__(self, number: int, prefix: int, shared: int) -> None:
        self._base = (1 << 61) + (number << 32)
        self._prefix = prefix << 32
        self._shared = shared

    def expand(self, runs: tuple[int, ...], blocks: int, place: str) -> tuple[int, ...]:
        """[start, length, start, length, …] → at most `blocks` ids."""
        if len(runs) % 2 or sum(runs[1::2]) > MAX_BLOCKS:
            raise WorkloadError(f"{place}: h must be pairs of start and length, of {MAX_BLOCKS} blocks at most")
        ids = [i for start, length in zip(runs[::2], runs[1::2], strict=True) for i in range(start, start + length)]
        own = [self._base + i for i in ids[self._shared : blocks]]
        return (*(self._prefix + i for i in range(min(self._shared, len(ids), blocks))), *own)


def _calls(row: SessionRow, rows: list[CallRow], start_s: float, names: _Names, place: str) -> list[Call]:
    calls: list[Call] = []
    turn = 0
    for i, call in enumerate(rows):
        turn += bool(i) and call.it == "h"
        calls.append(
            Call(
                id=f"{row.id}.{i}",
                num_input_tokens=call.input,
                num_output_tokens=max(1, call.out),
                session=row.id,
                turn=turn,
                arrival_s=None if i else start_s,
                gap_s=max(0.0, call.t - rows[i - 1].t - (rows[i - 1].api or 0.0)) if i else 0.0,
                hash_ids=names.expand(call.h, -(-call.input // row.bs), place),
            )
        )
    return calls
