"""When requests go out, to the second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from headway.bench.load import Pace
from headway.workload.call import Call, Session, Workload, WorkloadError, faster
from headway.workload.lengths import Fixed
from headway.workload.synthetic import Synthetic
from tests.bench.asking import drive
from tests.bench.scripted import Server, answer, whole


def second(server: Server) -> list[float]:
    return [at_s for at_s, _ in server.requests]


def lone(times_s: list[float]) -> list[Session]:
    return [(Call(str(i), 10, 1, arrival_s=at_s),) for i, at_s in enumerate(times_s)]


def test_open_loop_keeps_its_times_however_slow_the_answers() -> None:
    times_s = [0.0, 0.3, 0.3, 7.0, 7.5]
    server = Server(lambda _: answer(60.0, []))
    load = drive(Workload("w", lone(times_s)), server)
    assert second(server) == pytest.approx(times_s)
    assert server.most_open == 5
    assert [record.lateness_s for record in load.records] == pytest.approx([0.0] * 5)


def test_speed_scales_arrivals() -> None:
    server = Server(lambda _: answer(1.0, []))
    drive(faster(Workload("w", lone([0.0, 10.0, 20.0])), 4), server)
    assert second(server) == pytest.approx([0.0, 2.5, 5.0])


def test_closed_loop_starts_one_when_one_ends_after_its_pause() -> None:
    calls = [(Call(str(i), 10, 1, arrival_s=0.25 * i, gap_s=0.25 * i),) for i in range(5)]
    server = Server(lambda _: answer(2.0, []))
    drive(Workload("w", calls, concurrency=2), server)
    assert second(server) == pytest.approx([0.0, 0.25, 2.5, 3.0, 5.5])


def test_the_generators_of_the_simulator_can_be_driven_with_jitter() -> None:
    workload = Synthetic(40, Fixed(64), Fixed(4), concurrency=4, jitter_s=0.5).workload(seed=3)
    server = Server(lambda _: answer(1.0, []))
    drive(workload, server)
    again = Synthetic(40, Fixed(64), Fixed(4), concurrency=4, jitter_s=0.5).workload(seed=3)
    assert Counter(body["messages"][0]["content"] for _, body in server.requests) == Counter(
        call.id for session in again.sessions for call in session
    )
    assert server.most_open <= 4
    assert len(set(second(server))) == 40, "clients do not march in step"


def test_sessions_think_and_trace_calls_keep_times_of_their_own() -> None:
    thinking = [Call("a0", 10, 1), Call("a1", 10, 1, arrival_s=None, gap_s=3.0), Call("a2", 10, 1, arrival_s=None)]
    timed = [Call("b0", 10, 1, arrival_s=0.5), Call("b1", 10, 1, arrival_s=1.0)]
    server = Server(lambda _: answer(2.0, []))
    drive(Workload("w", [thinking, timed]), server, Pace(think=2.0))
    assert second(server) == pytest.approx([0.0, 0.5, 1.0, 8.0, 10.0])


def sub_agents() -> list[Call]:
    """A call, two sub-agents of two calls each, and a call that waits for both."""
    first = Call("0", 10, 1)
    one = [Call("a0", 10, 1, agent=1, arrival_s=None, gap_s=1), Call("a1", 10, 1, agent=1, arrival_s=None, gap_s=4)]
    two = [
        Call("b0", 10, 1, agent=2, arrival_s=None, after=(0,), gap_s=2),
        Call("b1", 10, 1, agent=2, arrival_s=None, gap_s=1),
    ]
    return [
        first,
        *one,
        *two,
        Call("1", 10, 1, arrival_s=None, after=(2, 4), gap_s=5),
        Call("2", 10, 1, arrival_s=None),
    ]


def test_sub_agents_run_side_by_side_and_their_parent_waits() -> None:
    server = Server(lambda _: answer(2.0, []))
    drive(Workload("w", [sub_agents()]), server)
    asked = {body["messages"][0]["content"]: at_s for at_s, body in server.requests}
    assert asked == pytest.approx({"0": 0, "a0": 3, "b0": 4, "b1": 7, "a1": 9, "1": 16, "2": 18})


def test_a_session_is_over_when_a_call_of_a_sub_agent_failed() -> None:
    server = Server([answer(2.0, []), answer(2.0, []), whole(500, b""), *[answer(2.0, [])] * 5])
    load = drive(Workload("w", [sub_agents()], concurrency=1), server)
    outcomes = {record.id: record.outcome for record in load.records}
    assert outcomes == {"0": "ok", "a0": "ok", "b0": "http_error"}
    assert load.num_abandoned == 4


def test_a_session_whose_call_failed_is_over() -> None:
    session = [Call(str(i), 10, 1, arrival_s=None if i else 0.0) for i in range(4)]
    load = drive(Workload("w", [session]), Server([answer(1.0, []), whole(500, b"")]))
    assert ([record.outcome for record in load.records], load.num_abandoned) == (["ok", "http_error"], 2)


def test_a_closed_loop_does_not_flood_a_server_that_refuses() -> None:
    refusal = whole(503, b"", "retry-after: 5")
    server = Server(lambda number: refusal if number < 2 else answer(1.0, []))
    drive(Workload("w", lone([0.0] * 4), concurrency=1), server)
    assert second(server) == pytest.approx([0.0, 5.0, 10.0, 11.0])


def test_duration_ends_sending_but_not_answers() -> None:
    server = Server(lambda _: answer(10.0, []))
    load = drive(Workload("w", lone([0.0, 1.0, 2.0, 3.0])), server, Pace(duration_s=2.0))
    assert [record.outcome for record in load.records] == ["ok", "ok"]
    closed = drive(
        Workload("w", lone([0.0] * 9), concurrency=1), Server(lambda _: answer(1.5, [])), Pace(duration_s=4.0)
    )
    assert len(closed.records) == 3


@pytest.mark.parametrize("concurrency", [None, 3])
def test_a_stop_keeps_what_is_done(concurrency: int | None) -> None:
    sessions = lone([0.0, 1.0, 2.0, 30.0])
    server = Server(lambda number: answer(0.5 if number < 2 else 50.0, []))
    load = drive(Workload("w", sessions, concurrency=concurrency), server, stop_at_s=5.0)
    outcomes = Counter(record.outcome for record in load.records)
    assert (outcomes["ok"], outcomes["interrupted"]) == (2, 1 if concurrency is None else 2)
    assert server.open == 0


def test_nothing_is_sent_after_a_stop() -> None:
    """As when a warm-up was interrupted."""
    server = Server(lambda _: answer(1.0, []))
    load = drive(Workload("w", lone([0.0] * 4), concurrency=2), server, stop_at_s=0.0)
    assert (load.records, server.requests) == ([], [])


def test_too_much_in_flight_is_unsent_and_told() -> None:
    server = Server(lambda _: answer(50.0, []))
    load = drive(Workload("w", lone([0.0, 1.0, 2.0])), server, Pace(max_open=2))
    assert Counter(record.outcome for record in load.records) == {"ok": 2, "unsent": 1}


@pytest.mark.parametrize("concurrency", [None, 2])
def test_a_trace_that_turns_bad_ends_with_its_error(concurrency: int | None) -> None:
    def sessions() -> Iterator[Session]:
        yield (Call("0", 10, 1),)
        raise WorkloadError("trace.jsonl:2: bad row")

    with pytest.raises(WorkloadError, match="bad row"):
        drive(Workload("w", sessions(), concurrency=concurrency), Server(lambda _: answer(9.0, [])))


def test_connections_are_kept() -> None:
    server = Server(lambda _: answer(1.0, []))
    load = drive(Workload("w", lone([0.0] * 6), concurrency=2), server)
    assert server.connections == 2
    assert sum(record.connect_s is not None for record in load.records) == 2
