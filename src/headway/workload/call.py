"""What a workload is made of: calls, in sessions, in order of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec


class WorkloadError(ValueError):
    """A trace or a setting that makes no workload; the text is one line that names the file and row, or the setting."""


class Call(msgspec.Struct, frozen=True):
    """One LLM request inside a turn of a session. A lone request is a session of one call."""

    id: str
    """Unique in its workload."""
    num_input_tokens: int
    """At least 1."""
    num_output_tokens: int
    """At least 1. The true length: hidden from scheduler and router."""
    session: str | None = None
    turn: int = 0
    """Which of the session's turns: each begins with a human's prompt."""
    model: str = ""
    """That it asks for, by the trace's name; empty: any."""
    agent: int = 0
    """Who of the session asks: 0 its main agent, others the sub-agents. A call goes on from the one before it of the
    same agent."""
    arrival_s: float | None = 0.0
    """Seconds from the start, whatever the server does (open loop); None: `gap_s` after those that it waits for."""
    after: tuple[int, ...] | None = None
    """The calls before it whose ends it waits for, by their numbers in the session; None: the previous one."""
    gap_s: float = 0.0
    """Tool or human time since the end of the last that it waits for."""
    hash_ids: tuple[int, ...] = ()
    """The prompt's content, one id for each whole block of `Workload.hash_block_size` tokens, perhaps one more for a
    last partial block. An equal id means the same block after the same prefix. Empty: shares nothing with anyone."""
    max_output_tokens: int | None = None
    """The limit that the client set, where that is known: no secret, unlike the length."""
    num_thinking_tokens: int = 0
    """The first of the output, which the session's next prompt leaves out; less than all of it."""
    was_empty: bool = False
    """The trace has an answer of no token, which is taken as one."""


Session = Sequence[Call]
"""Never empty. The first call has an `arrival_s`; a later one that has none waits for calls before it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Sessions in order of the first call's arrival. `sessions` may be lazy, and then can be read once only."""

    name: str
    sessions: Iterable[Session]
    hash_block_size: int = 0
    """Tokens a hash id stands for; 0 where calls have no hash ids."""
    concurrency: int | None = None
    """Closed loop: so many sessions are in progress; a session starts its first call's `gap_s` after another has ended.
    None: sessions start at `arrival_s`."""
    num_calls: int | None = None
    """For a progress bar: how many there are, or at most, where that is known beforehand."""

    def head(self, num_calls: int) -> Workload:
        """The first sessions, the last of them cut, until there are `num_calls` calls."""
        if num_calls < 1:
            raise WorkloadError(f"the number of calls must be at least 1, not {num_calls}")
        known = num_calls if self.num_calls is None else min(num_calls, self.num_calls)
        sessions = _head(self.sessions, num_calls)
        return Workload(self.name, sessions, self.hash_block_size, self.concurrency, known)


def _head(sessions: Iterable[Session], num_calls: int) -> Iterator[Session]:
    for session in sessions:
        yield session[:num_calls]
        num_calls -= len(session)
        if num_calls <= 0:
            return


def merge(*streams: Iterable[Session]) -> Iterator[Session]:
    """Sessions of several sorted streams, in order of the first call's arrival; ties go to the earlier stream."""
    return heapq.merge(*streams, key=start_s)


def in_order(sessions: Iterable[Session], where: Callable[[int], str]) -> Iterator[Session]:
    """The same sessions. Raises WorkloadError at the first that starts before the one above; `where` names its row."""
    last = 0.0
    for number, session in enumerate(sessions):
        if start_s(session) < last:
            raise WorkloadError(
                f"{where(number)}: arrives at {start_s(session):g} s, before the row above ({last:g} s)"
            )
        last = start_s(session)
        yield session


def start_s(session: Session) -> float:
    """When the session's first call arrives."""
    return session[0].arrival_s or 0.0


MAX_START_S = 1e9
"""Some 31 years: a run counts in nanoseconds of 64 bits."""


def soon(workload: Workload, place: str = "") -> Workload:
    """The same sessions. Its iteration raises WorkloadError, that begins with `place`, at the first that begins after
    MAX_START_S.
    """
    return replace(workload, sessions=_soon(workload.sessions, place))


def _soon(sessions: Iterable[Session], place: str) -> Iterator[Session]:
    for session in sessions:
        if start_s(session) > MAX_START_S:
            late = f"{place}call {session[0].id} arrives after {start_s(session):.4g} s"
            raise WorkloadError(f"{late}, and none may after {MAX_START_S:,.0f} s")
        yield session


def faster(workload: Workload, factor: float) -> Workload:
    """The same calls, arriving `factor` times as fast; gaps inside of sessions stay. Raises WorkloadError."""
    if not 0 < factor < float("inf"):
        raise WorkloadError(f"the speed of arrivals must be positive, not {factor}")
    if factor == 1:
        return workload
    return replace(workload, sessions=(_faster(session, factor) for session in workload.sessions))


def _faster(session: Session, factor: float) -> Session:
    return [
        call if call.arrival_s is None else msgspec.structs.replace(call, arrival_s=call.arrival_s / factor)
        for call in session
    ]
