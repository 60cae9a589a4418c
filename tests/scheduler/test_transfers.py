"""Blocks from a slower tier: on time, late, failed, never."""

from __future__ import annotations

import numpy as np
import pytest

from headway.scheduler.block_keys import BlockHasher
from headway.scheduler.config import CacheGroup
from headway.scheduler.facts import AnswerKeys, TierHolds, TierLost
from headway.scheduler.request import Request
from headway.scheduler.step_log import replay
from headway.scheduler.transfers import MAX_TRANSFERS

from .drive import Drive, config, expected_output, request

PROMPT = list(range(10, 35))
HELD_BLOCKS = 5


def keys(prompt: list[int] = PROMPT, count: int = HELD_BLOCKS) -> tuple[bytes, ...]:
    found: list[bytes] = []
    BlockHasher(4, b"key").extend(found, np.array(prompt, np.int32), b"")
    return tuple(found[:count])


def loading(**changes: object) -> Drive:
    """A drive whose first request waits for five blocks from DRAM."""
    drive = Drive(config(transfer_timeout_ns=50_000, **changes))
    drive.brain.tell(TierHolds("dram", keys()))
    drive.add(request("a", PROMPT, 4))
    drive.step()
    return drive


def fill(drive: Drive, transfer: int = 0) -> None:
    """What a body does: writes the KV of the loaded tokens into the load's blocks."""
    (load,) = (each for each in drive.body.loads[transfer].loads if each.transfer == transfer)
    for memory, blocks in zip(drive.body.memory, load.blocks, strict=True):
        for i, block in enumerate(blocks.tolist()):
            memory[block] = {offset: tuple(PROMPT[: i * 4 + offset + 1]) for offset in range(4)}


def finish(drive: Drive, name: str = "a") -> int:
    drive.run()
    assert drive.outputs[name] == expected_output(request(name, PROMPT, 4))
    return drive.ended[name].receipt.tokens_reused


@pytest.mark.parametrize("groups", [(CacheGroup("full", 64),), (CacheGroup("full", 64), CacheGroup("window", 64, 9))])
def test_a_load_that_arrives_saves_its_tokens(groups: tuple[CacheGroup, ...]) -> None:
    drive = loading(groups=groups)
    (load,) = drive.body.plans[0].loads
    assert (load.tier, load.keys) == ("dram", keys())
    assert drive.step() is None
    fill(drive)
    drive.brain.arrived(0, True, drive.now_ns)
    assert finish(drive) == HELD_BLOCKS * 4


def test_a_failed_load_is_computed_instead_and_not_tried_again() -> None:
    drive = loading()
    drive.brain.arrived(0, False, drive.now_ns)
    assert finish(drive) == 0
    assert len(drive.body.loads) == 1


def test_a_load_that_never_arrives_is_given_up_but_its_blocks_stay_out_of_use() -> None:
    drive = loading()
    assert drive.step() is None
    assert drive.wake is not None
    drive.now_ns = drive.wake.time_ns
    assert finish(drive) == 0
    assert drive.scheduler.stats().blocks_used == HELD_BLOCKS
    assert drive.scheduler.is_idle


def test_a_load_that_arrives_late_serves_the_next_request() -> None:
    drive = loading()
    drive.now_ns += 60_000
    drive.add(request("other", [1] * 4, 60))
    drive.step()
    assert drive.scheduler.stats().num_running == 2
    fill(drive)
    drive.brain.arrived(0, True, drive.now_ns)
    drive.check()
    drive.run()
    drive.add(request("b", PROMPT, 4))
    assert finish(drive, "b") >= HELD_BLOCKS * 4


def test_a_cancelled_request_leaves_its_load_to_end_by_itself() -> None:
    drive = loading()
    drive.brain.cancel("a", drive.now_ns)
    drive.check()
    assert drive.ended["a"].reason == "cancelled"
    assert drive.scheduler.stats().blocks_used == HELD_BLOCKS
    fill(drive)
    drive.brain.arrived(0, True, drive.now_ns)
    drive.check()
    assert drive.scheduler.stats().blocks_used == 0
    drive.add(request("b", PROMPT, 4))
    assert finish(drive, "b") == HELD_BLOCKS * 4


def test_who_needs_the_same_blocks_waits_for_the_one_load() -> None:
    drive = loading()
    drive.add(request("b", PROMPT, 4))
    assert drive.step() is None
    assert len(drive.body.loads) == 1
    fill(drive)
    drive.brain.arrived(0, True, drive.now_ns)
    assert finish(drive, "b") >= HELD_BLOCKS * 4


def test_when_the_load_is_given_up_those_behind_it_compute_once() -> None:
    drive = loading()
    drive.add(request("b", PROMPT, 4))
    drive.step()
    drive.now_ns += 60_000
    drive.brain.tell(TierLost(keys()))
    drive.run()
    assert drive.ended["b"].receipt.tokens_reused == 24


def test_arrivals_that_nobody_knows_change_nothing() -> None:
    drive = loading()
    drive.brain.arrived(0, True, drive.now_ns)
    fill(drive)
    for _ in range(2):
        drive.brain.arrived(0, True, drive.now_ns)
        drive.brain.arrived(99, False, drive.now_ns)
        drive.check()
    finish(drive)


def test_what_is_here_already_is_not_loaded() -> None:
    drive = Drive(config())
    drive.add(request("warm", PROMPT, 4))
    drive.run()
    drive.brain.tell(TierHolds("ssd", keys()))
    drive.add(request("a", PROMPT, 4))
    assert finish(drive) == 24
    assert not drive.body.loads


def test_loads_under_way_are_bounded() -> None:
    drive = Drive(config(num_blocks=4 * MAX_TRANSFERS))
    for i in range(MAX_TRANSFERS + 3):
        drive.brain.tell(TierHolds("dram", keys([1000 + i] * 5, 1)))
        drive.add(request(f"r{i}", [1000 + i] * 5, 1))
    drive.run()
    assert len(drive.body.loads) == MAX_TRANSFERS
    assert len(drive.ended) == 3


def test_where_there_are_no_ids_an_answers_keys_make_its_blocks_findable() -> None:
    names = tuple(bytes([i]) * 16 for i in range(8))
    found = []
    for told in (False, True):
        drive = Drive(config(token_ids=False), script=lambda _, position: 0 if position == 22 else 5)
        drive.add(Request("one", 10, 30, num_tokens=10, block_keys=names[:2], stop_token_ids=(0,)))
        for _ in range(12):
            drive.step()
        if told:
            drive.brain.tell(AnswerKeys("one", names[:6]))
        drive.run()
        drive.brain.tell(AnswerKeys("one", names))  # too late: changes nothing
        drive.add(Request("two", 28, 4, num_tokens=28, block_keys=names[:7], stop_token_ids=(0,)))
        drive.run()
        found.append(drive.ended["two"].receipt.tokens_reused)
        replay(drive.log)
    assert found == [8, 20]
