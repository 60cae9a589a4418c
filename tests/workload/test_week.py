"""Hours and weekdays: time of activity passes as the profile says, and the mean rate stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headway.cli.simulate import simulate
from headway.workload.agentic import Agentic
from headway.workload.call import WorkloadError
from headway.workload.lengths import Fixed
from headway.workload.synthetic import Synthetic
from headway.workload.week import HOURS, PROFILES, WEEK_S, Week, by_the_week, read_week

weeks = st.lists(st.sampled_from([0.0, 0.05, 0.3, 1.0, 7.0]), min_size=HOURS, max_size=HOURS).filter(any)
times = st.floats(0, 3 * WEEK_S)


@given(weeks, st.integers(0, HOURS - 1), times, times, times)
def test_two_pieces_last_as_long_as_one(
    activity: list[float], start_hour: int, now_s: float, one_s: float, two_s: float
) -> None:
    week = Week(activity, start_hour)
    first_s = week.lasts_s(now_s, one_s)
    assert first_s >= 0
    whole_s = week.lasts_s(now_s, one_s + two_s)
    assert whole_s >= first_s - 1e-3
    # Where a piece ends as an idle stretch begins, the rest may begin at either end of it.
    ends_s = [week.lasts_s(now_s, one_s + two_s + nudge_s) for nudge_s in (-1e-3, 1e-3)]
    assert ends_s[0] - 1 <= first_s + week.lasts_s(now_s + first_s, two_s) <= ends_s[1] + 1


@given(weeks, times)
def test_a_week_has_a_week_of_activity(activity: list[float], now_s: float) -> None:
    """Up to where activity goes on: nobody can tell when in an idle hour a week is over."""
    assert Week(activity).lasts_s(now_s, WEEK_S) == pytest.approx(WEEK_S, abs=HOURS * 3600 - 1)
    busy = [max(a, 0.05) for a in activity]
    assert Week(busy).lasts_s(now_s, WEEK_S) == pytest.approx(WEEK_S, abs=1e-3)


def test_an_even_week_changes_nothing() -> None:
    workload = Agentic("coding_agent", 5, rate_per_s=0.001).workload(1)
    even = by_the_week(Agentic("coding_agent", 5, rate_per_s=0.001).workload(1), Week([3.0] * HOURS))
    for session, same in zip(workload.sessions, even.sessions, strict=True):
        assert [c.arrival_s for c in same] == pytest.approx([c.arrival_s for c in session])
        assert [c.gap_s for c in same] == pytest.approx([c.gap_s for c in session], abs=1e-6)


def test_arrivals_follow_the_profile() -> None:
    workload = Synthetic(21_000, Fixed(10), Fixed(1), rate_per_s=20_000 / WEEK_S).workload(1)
    arrivals_s = np.array([s[0].arrival_s for s in by_the_week(workload, Week(PROFILES["office"])).sessions])
    assert (np.diff(arrivals_s) >= 0).all()
    counts = np.bincount((arrivals_s[arrivals_s < WEEK_S] // 3600).astype(int), minlength=HOURS)
    expected = np.array(PROFILES["office"]) / sum(PROFILES["office"]) * 20_000
    assert counts == pytest.approx(expected, rel=0.35, abs=12)


def test_thinking_waits_for_the_morning_and_tools_do_not() -> None:
    nine_to_ten = [float(hour % 24 == 9) for hour in range(HOURS)]
    # 24 times as busy in the one hour of the day: half a minute of it lasts 12 minutes of activity.
    week = Week(nine_to_ten, start_hour=9)
    assert week.lasts_s(0.0, 720) == pytest.approx(30)
    assert week.lasts_s(3590.0, 720) == pytest.approx(23 * 3600 + 30)
    settings = {"rate_per_s": 1.0, "sub_agents": 0.2}
    plain = Agentic("coding_agent", 6, **settings).workload(3)  # type: ignore[arg-type]
    placed = by_the_week(Agentic("coding_agent", 6, **settings).workload(3), week)  # type: ignore[arg-type]
    for session, other in zip(plain.sessions, placed.sessions, strict=True):
        last_turn = 0
        for call, moved in zip(session, other, strict=True):
            assert moved.gap_s == call.gap_s or call.turn != last_turn
            last_turn = call.turn


def test_a_closed_loop_has_no_hours() -> None:
    with pytest.raises(WorkloadError, match="not a closed loop"):
        by_the_week(Agentic("coding_agent", 2, concurrency=2).workload(1), Week([1.0] * HOURS))


DAY = ",".join(["1"] * 24) + "\n"
BAD = {
    "a cell": (DAY * 3 + DAY.replace("1,", "x,", 1) + DAY * 3, ":4: a day is 24 numbers"),
    "negative": (DAY + DAY.replace("1,", "-1,", 1) + DAY * 5, ":2: a day is 24 numbers"),
    "NaN": (DAY.replace("1,", "nan,", 1) + DAY * 6, ":1: a day is 24 numbers"),
    "infinite": (DAY.replace("1,", "inf,", 1) + DAY * 6, ":1: a day is 24 numbers"),
    "hours": (DAY * 6 + "1,2\n", ":7: a day is 24 numbers"),
    "days": (DAY * 6, ": 6 lines of 24 hours, where a week has 7"),
    "empty": ("", ": 0 lines of 24 hours"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_profile_gets_one_line(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    path = tmp_path / "week.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError) as caught:
        read_week(str(path))
    assert str(caught.value).startswith(str(path) + message)


def test_no_activity_at_all_is_refused() -> None:
    with pytest.raises(WorkloadError, match="not all of them 0"):
        Week([0.0] * HOURS)


def test_the_option(tmp_path: Path) -> None:
    path = tmp_path / "week.csv"
    path.write_text(DAY * 7)
    few = ["--requests", "30", "--rate", "0.001", "--json"]
    outputs = [
        CliRunner().invoke(simulate, [*few, *more]).output
        for more in ((), ("--think-by-hour", str(path)), ("--think-by-hour", "office"))
    ]
    durations = [float(text.split('"duration_s": ')[1].split(",")[0]) for text in outputs]
    assert durations[0] == pytest.approx(durations[1])
    assert durations[0] != pytest.approx(durations[2], rel=0.01)
    for more, words in (
        (("--think-by-hour", "weekend"), "office or a file, and there is no file 'weekend'"),
        (("--think-by-hour", "office", "--trace", str(path)), "--think-by-hour: not with --trace"),
        (("--think-by-hour", "office", "--concurrency", "2"), "--think-by-hour: not with --concurrency"),
    ):
        arguments = [a for a in few if a not in ("--rate", "0.001")] if "office" in more else few
        assert words in CliRunner().invoke(simulate, [*arguments, *more]).output
