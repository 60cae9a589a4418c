"""Who is refused because the queue is full: the rule of the real server, from the command too."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from headway.cli.simulate import simulate
from headway.server.engine import Overloaded
from headway.server.engine_room import QueueLimits as RealLimits
from headway.server.engine_room import WaitingRoom
from headway.simulator.faults import REPLICA, Fault
from headway.simulator.fleet import FleetConfig
from headway.simulator.handover import Parcel, Port
from headway.simulator.pools import Pool
from headway.simulator.queue_limits import QueueLimits
from tests.simulator.drive import Outcome, PlainTime, config, lone, run_fleet

AT_ONCE = [(0.0, 8, 4)] * 10


def limited(max_requests: int | None = None, max_tokens: int | None = None, seats: int = 1, replicas: int = 1) -> Pool:
    queue = QueueLimits(max_requests, max_tokens)
    return Pool(replicas, config(max_running=seats), PlainTime(), queue=queue)


def reasons(outcome: Outcome) -> list[str]:
    return [record.reason for record in sorted(outcome.records, key=lambda record: int(record.call.id))]


@pytest.mark.parametrize("seats", [1, 3])
@pytest.mark.parametrize("limit", [0, 1, 4])
def test_as_many_stay_as_can_begin_or_may_wait(seats: int, limit: int) -> None:
    outcome = run_fleet(lone(*AT_ONCE), FleetConfig((limited(limit, seats=seats),)))
    assert reasons(outcome) == ["stop"] * (seats + limit) + ["queue_full"] * (10 - seats - limit)


@pytest.mark.parametrize(("tokens", "stay"), [(1, 1), (15, 1), (16, 2), (24, 3)])
def test_prompt_tokens_that_wait_are_limited_but_one_is_never_too_long(tokens: int, stay: int) -> None:
    outcome = run_fleet(lone(*AT_ONCE), FleetConfig((limited(max_tokens=tokens),)))
    assert reasons(outcome) == ["stop"] * stay + ["queue_full"] * (10 - stay)


@pytest.mark.parametrize(("requests", "tokens"), [(0, 10_000), (3, 10_000), (100, 30)])
def test_it_is_the_rule_of_the_real_waiting_room(requests: int, tokens: int) -> None:
    """As many of those that come at once as there, where none has begun yet."""
    room, entered = WaitingRoom(RealLimits(requests, tokens)), 0
    for _ in AT_ONCE:
        try:
            room.enter(8, 2)
        except Overloaded:
            break
        entered += 1
    outcome = run_fleet(lone(*AT_ONCE), FleetConfig((limited(requests, tokens, seats=2),)))
    assert reasons(outcome).count("stop") == entered


def test_a_place_that_was_left_is_given_to_the_next() -> None:
    outcome = run_fleet(lone((0, 8, 4), (0, 8, 4), (0.5, 8, 4)), FleetConfig((limited(0),)))
    assert reasons(outcome) == ["stop", "queue_full", "stop"]


def test_who_was_let_in_is_not_refused_when_a_replica_fails() -> None:
    pools, fault = (limited(1, replicas=2),), Fault(REPLICA, 0.003, 1.0, 1)
    outcome = run_fleet(lone(*AT_ONCE[:4]), FleetConfig(pools, faults=(fault,)))
    assert reasons(outcome) == ["stop"] * 4
    assert sum(record.resent for record in outcome.records) == 2


def test_who_was_let_in_is_not_refused_where_it_goes_on() -> None:
    port = Port(1e9)
    sender = replace(limited(10), role="prefill", port=port)
    receiver = replace(limited(0), role="decode", port=port)
    parcel = Parcel(lambda tokens: 100.0 * tokens, 4)
    outcome = run_fleet(lone(*AT_ONCE), FleetConfig((sender, receiver), parcel=parcel))
    assert reasons(outcome) == ["stop"] * 10


# The command


def called(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(simulate, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


BUSY = ("--requests", "30", "--rate", "10000", "--max-running", "4")


def test_the_options_limit_each_replica() -> None:
    assert called(*BUSY)["refused"] == {}
    assert called(*BUSY, "--max-queued-requests", "6")["refused"] == {"queue_full": 20}
    assert called(*BUSY, "--max-queued-requests", "6", "--replicas", "2")["refused"] == {"queue_full": 10}
    few = called(*BUSY, "--input-tokens", "100", "--max-queued-tokens", "1000")
    assert few["refused"] == {"queue_full": 19}, "one has begun; ten of 100 tokens wait until its step is over"


def test_a_pool_may_have_its_own() -> None:
    found = called(*BUSY, "--max-queued-requests", "0", "--pool", "replicas=1", "--pool", "max-queued-requests=8")
    assert found["refused"] == {"queue_full": (15 - 4) + (15 - 4 - 8)}


def test_a_sweep_takes_it() -> None:
    found = called(*BUSY, "--sweep", "max-queued-requests=default,6", "--jobs", "1")
    assert [point["result"]["refused"] for point in found["points"]] == [{}, {"queue_full": 20}]  # type: ignore[attr-defined]


def test_the_text_says_how_many_and_why() -> None:
    text = CliRunner().invoke(simulate, [*BUSY, "--max-queued-requests", "6"]).output
    assert "20 refused (queue full)" in text
    assert "queue full, the first: 6 requests are queued; the limit is 6" in text
