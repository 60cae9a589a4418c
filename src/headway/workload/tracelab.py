"""The format of TraceLab: one call a line, sessions side by side, lengths of the reused prefix instead of block ids."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from headway.workload.call import Call, Session, Workload, WorkloadError, start_s
from headway.workload.lines import read_json_rows, where

BLOCK_SIZE = 64
MAX_CALLS = 1_000_000
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]


class Event(msgspec.Struct, frozen=True):
    event_type: str
    timestamp: datetime


class Row(msgspec.Struct, frozen=True):
    session_id: str
    input_tokens_total: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    output_tokens: Count
    timing_events: tuple[Event, ...]
    prefix_tokens: Count = 0


INPUTS = ("user_message", "tool_result")


def read_tracelab(path: Path) -> Workload:
    """A call starts with the last of its inputs and ends with its last event. The whole file is read: its sessions
    overlap. Raises WorkloadError.
    """
    sessions: dict[str, _Recorded] = {}
    for count, (number, row) in enumerate(read_json_rows(path, Row)):
        if count == MAX_CALLS:
            raise WorkloadError(f"{where(path, number)}: more than {MAX_CALLS} calls")
        name = row.session_id
        sessions.setdefault(name, _Recorded(name, len(sessions))).add(row, where(path, number))
    first_s = min(recorded.start_s for recorded in sessions.values())
    ordered = sorted((recorded.session(first_s) for recorded in sessions.values()), key=start_s)
    return Workload("tracelab", ordered, BLOCK_SIZE, num_calls=sum(map(len, ordered)))


class _Recorded:
    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.start_s = 0.0
        self._end_s = 0.0
        self._turn = 0
        self._ids: list[int] = []
        self._next_id = number << 32
        self._calls: list[Call] = []

    def add(self, row: Row, place: str) -> None:
        if not row.timing_events:
            raise WorkloadError(f"{place}: timing_events is empty")
        times = [event.timestamp.timestamp() for event in row.timing_events]
        given = [t for t, e in zip(times, row.timing_events, strict=True) if e.event_type in INPUTS]
        begin_s = max(given, default=min(times))
        if self._calls and begin_s < self.start_s:
            raise WorkloadError(f"{place}: starts before its session")
        if not self._calls:
            self.start_s = begin_s
        self._turn += bool(self._calls) and any(e.event_type == "user_message" for e in row.timing_events)
        self._calls.append(
            Call(
                id=f"{self.name}.{len(self._calls)}",
                num_input_tokens=row.input_tokens_total,
                num_output_tokens=max(1, row.output_tokens),
                session=self.name,
                turn=self._turn,
                arrival_s=None,
                gap_s=max(0.0, begin_s - self._end_s) if self._calls else 0.0,
                hash_ids=self._grow(min(row.prefix_tokens, row.input_tokens_total), row.input_tokens_total),
                was_empty=not row.output_tokens,
            )
        )
        self._end_s = max(times)

    def _grow(self, prefix_tokens: int, tokens: int) -> tuple[int, ...]:
        """The blocks of the reused prefix stay, all behind it are new."""
        del self._ids[prefix_tokens // BLOCK_SIZE :]
        missing = tokens // BLOCK_SIZE - len(self._ids)
        self._ids.extend(range(self._next_id, self._next_id + missing))
        self._next_id += max(0, missing)
        return tuple(self._ids)

    def session(self, first_s: float) -> Session:
        return [replace(self._calls[0], arrival_s=self.start_s - first_s), *self._calls[1:]]
