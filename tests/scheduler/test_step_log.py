"""A log replays to the same decisions, and says where it does not."""

from __future__ import annotations

import json

import pytest

from headway.scheduler.config import Speculation
from headway.scheduler.facts import TierHolds
from headway.scheduler.request import Sampling
from headway.scheduler.step_log import replay
from headway.scheduler.step_records import VERSION, StepLogError

from .drive import Drive, config, request


@pytest.fixture
def log() -> list[bytes]:
    drive = Drive(config(num_blocks=18, speculation=Speculation(), max_queued_requests=6), depth=2)
    drive.brain.tell(TierHolds("dram", (b"k" * 16,)))
    drive.add(*(request(f"r{i}", 6 + i, 25, priority=i % 2, session="s") for i in range(6)))
    with pytest.raises(Exception, match="queued"):
        drive.add(request("too many", 5))
    for _ in range(4):
        drive.step()
    drive.brain.cancel("r1", drive.now_ns)
    drive.add(request("late", 9, 4, salt=b"t", sampling=Sampling(temperature=0.5, logit_bias=((3, 1.5),))))
    drive.body.fail_next = None
    drive.run()
    return drive.log


def test_a_replay_takes_the_same_decisions_to_the_byte(log: list[bytes]) -> None:
    scheduler, steps = replay(log)
    assert steps == sum(json.loads(line).get("digest") is not None for line in log)
    assert steps > 20
    assert scheduler.is_idle


@pytest.mark.parametrize(
    ("event", "field", "value", "message"),
    [
        ("plan", "digest", "0" * 32, "plan differs"),
        ("commit", "token_ids", [3, 3, 3, 3, 3, 3, 3], "differs|due"),
        ("ended", "reason", "stop", "receipt differs"),
        ("add", "refused", "queue_full", "refusal differs"),
    ],
)
def test_a_changed_line_is_found(log: list[bytes], event: str, field: str, value: object, message: str) -> None:
    at = next(i for i, line in enumerate(log) if json.loads(line)["event"] == event and i > 2)
    record = json.loads(log[at]) | {field: value}
    with pytest.raises(ValueError, match=message):
        replay([*log[:at], json.dumps(record).encode(), *log[at + 1 :]])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: a step log begins with a header"),
        ([b"{"], "line 1: "),
        ([b'{"event":"plan","now_ns":1}'], "line 1: a step log begins with a header"),
        ([b'{"event":"nothing"}'], "line 1: Invalid value 'nothing'"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(lines: list[bytes], message: str) -> None:
    with pytest.raises(StepLogError, match=message):
        replay(lines)


def test_another_version_is_refused(log: list[bytes]) -> None:
    header = json.loads(log[0]) | {"version": 99}
    with pytest.raises(StepLogError, match=f"version 99 where this program reads {VERSION}"):
        replay([json.dumps(header).encode(), *log[1:]])
