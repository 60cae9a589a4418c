"""When people work: arrivals and human think time, stretched and shrunk by the hour of a week.

Both are drawn in time during which people are active. A week's profile says how much of that an hour has, and is scaled
so that a whole week has a week of it: the mean rate stays as it was.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import msgspec

from headway.workload.call import Call, Session, Workload, WorkloadError
from headway.workload.lines import read_lines, where

HOURS = 24 * 7
WEEK_S = HOURS * 3600.0
CALL_S = 10.0
"""What a call is taken to last, for the hour at which the human after it begins to think: 9.6 s on average in the
coding-agent sessions of callanjfox/kv-cache-tester."""
_WORKDAY = (*[0.05] * 7, 0.3, 0.8, *[1.0] * 3, 0.7, *[1.0] * 4, 0.7, 0.4, *[0.3] * 3, 0.2, 0.1)
_DAY_OFF = (*[0.05] * 8, *[0.2] * 14, *[0.1] * 2)
PROFILES = {"office": (*_WORKDAY * 5, *_DAY_OFF * 2)}
"""By name: the activity of each hour from Monday 0:00 on. `office` is an assumption; nobody measured it."""


class Week:
    """Law: what takes a time of activity in one piece takes it in two; no time runs backwards."""

    def __init__(self, activity: Sequence[float], start_hour: int = 0) -> None:
        """[HOURS] from Monday 0:00 on, in any unit; a run begins at `start_hour`. Raises WorkloadError."""
        if len(activity) != HOURS or not all(0 <= a < math.inf for a in activity) or not 0 < sum(activity) < math.inf:
            raise WorkloadError(f"a week is {HOURS} hours of at least 0, not all of them 0")
        mean = sum(activity) / HOURS
        self._rates = [a / mean for a in activity]
        self._passed_s = list(accumulate((3600 * rate for rate in self._rates), initial=0.0))
        self._start_s = start_hour * 3600.0

    def lasts_s(self, now_s: float, active_s: float) -> float:
        """How long it takes, from `now_s` on, until people have been active for `active_s`."""
        begin_s = self._start_s + now_s
        return max(0.0, self._when_s(self._active_s(begin_s) + active_s) - begin_s)

    def _active_s(self, time_s: float) -> float:
        weeks, rest_s = divmod(time_s, WEEK_S)
        hour = min(int(rest_s // 3600), HOURS - 1)
        return weeks * WEEK_S + self._passed_s[hour] + (rest_s - hour * 3600) * self._rates[hour]

    def _when_s(self, active_s: float) -> float:
        weeks, rest_s = divmod(active_s, WEEK_S)
        hour = min(bisect_right(self._passed_s, rest_s) - 1, HOURS - 1)
        rate = self._rates[hour]
        within_s = min((rest_s - self._passed_s[hour]) / rate, 3600.0) if rate else 3600.0
        return weeks * WEEK_S + hour * 3600 + within_s


def by_the_week(workload: Workload, week: Week) -> Workload:
    """Sessions arrive, and their humans think, when people are active. Gaps after tools stay.

    Raises WorkloadError in closed loop, where sessions have no times of their own.
    """
    if workload.concurrency is not None:
        raise WorkloadError("hours of the week need sessions that arrive at a rate, not a closed loop")
    return replace(workload, sessions=_placed(workload.sessions, week))


def _placed(sessions: Iterable[Session], week: Week) -> Iterator[Session]:
    last_s = 0.0
    for session in sessions:
        first = session[0]
        # Rounding must not put one session before the other.
        now_s = last_s = max(last_s, week.lasts_s(0.0, first.arrival_s or 0.0))
        calls = [msgspec.structs.replace(first, arrival_s=now_s)]
        for before, call in zip(_of_main_agent(session), session[1:], strict=False):
            if call.agent:
                calls.append(call)
                continue
            gap_s = week.lasts_s(now_s + CALL_S, call.gap_s) if call.turn != before.turn else call.gap_s
            now_s += CALL_S + gap_s
            calls.append(msgspec.structs.replace(call, gap_s=gap_s))
        yield calls


def _of_main_agent(session: Session) -> Iterator[Call]:
    """By call: the main agent's last until then."""
    last = session[0]
    for call in session:
        last = last if call.agent else call
        yield last


def read_week(name: str) -> Sequence[float]:
    """A profile by name, or from a file: 7 lines, Monday first, of 24 numbers with commas between. Raises
    WorkloadError.
    """
    if name in PROFILES:
        return PROFILES[name]
    path = Path(name)
    if not path.exists():
        raise WorkloadError(f"hours of the week: {', '.join(PROFILES)} or a file, and there is no file {name!r}")
    days = [_day(line, where(path, number)) for number, line in read_lines(path)]
    if len(days) != 7:
        raise WorkloadError(f"{path}: {len(days)} lines of 24 hours, where a week has 7")
    return [hour for day in days for hour in day]


def _day(line: bytes, place: str) -> list[float]:
    cells = line.decode("utf-8", "replace").strip().split(",")
    try:
        hours = [float(cell) for cell in cells]
    except ValueError:
        hours = []
    if len(hours) != 24 or not all(0 <= hour < math.inf for hour in hours):
        raise WorkloadError(f"{place}: a day is 24 numbers of at least 0 with commas between")
    return hours
