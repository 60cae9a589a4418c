"""Who of a session goes next: each call once, after all those that it waits for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.workload.call import Call, WorkloadError
from headway.workload.progress import Progress


def calls(*after: tuple[int, ...] | None) -> list[Call]:
    return [Call(str(n), 1, 1, arrival_s=None if n else 0.0, after=waits) for n, waits in enumerate((None, *after))]


@st.composite
def sessions(draw) -> list[Call]:
    after = [
        draw(st.one_of(st.none(), st.lists(st.integers(0, n), min_size=1, max_size=4, unique=True).map(tuple)))
        for n in range(draw(st.integers(0, 12)))
    ]
    return calls(*after)


@given(session=sessions(), data=st.data())
def test_each_call_goes_once_after_all_that_it_waits_for(session: list[Call], data) -> None:
    progress = Progress(session)
    ready, ended = [0], []
    while ready:
        number = ready.pop(data.draw(st.integers(0, len(ready) - 1)))
        assert not progress.is_over
        ended.append(number)
        free = progress.ended(number)
        for other in free:
            waits = session[other].after or (other - 1,)
            assert set(waits) <= set(ended)
            assert number in waits
        ready += free
    assert sorted(ended) == list(range(len(session)))
    assert progress.is_over


def test_a_call_with_a_time_of_its_own_waits_for_none() -> None:
    progress = Progress([Call("0", 1, 1), Call("1", 1, 1, arrival_s=3.0), Call("2", 1, 1, arrival_s=None)])
    assert progress.ended(0) == []
    assert progress.ended(1) == [2]


@pytest.mark.parametrize("after", [(), (1,), (2,), (-1,), (0, 5)])
def test_waiting_for_what_does_not_come_is_refused(after: tuple[int, ...]) -> None:
    with pytest.raises(WorkloadError, match="call 1: it must wait for earlier calls of its session"):
        Progress(calls(after))
