"""What goes down to slower tiers when sequences end, and what comes back."""

from __future__ import annotations

import pytest

from headway.scheduler.block_pool import BlockPool
from headway.scheduler.config import CacheGroup, ConfigError, Tier
from headway.scheduler.contract import DEVICE, Save
from headway.scheduler.saves import DEVICE_SHARE, MAX_SAVES
from headway.scheduler.transfers import MAX_TRIES

from .drive import Drive, config, expected_output, request

PROMPT = list(range(10, 35))
OTHER = list(range(40, 65))
BLOCKS = 7
"""Full blocks of 4 tokens of prompt (25) and answer (4, the last of which is never computed)."""


def drive(*tiers: Tier, num_blocks: int = 64, **changes: object) -> Drive:
    return Drive(config(num_blocks, tiers=tiers, **changes))


def serve(drive: Drive, name: str, prompt: list[int]) -> int:
    """Tokens of the prompt that were not computed anew."""
    drive.add(request(name, prompt, 4))
    drive.settle()
    assert drive.outputs[name] == expected_output(request(name, prompt, 4))
    return drive.ended[name].receipt.tokens_reused


def forget(drive: Drive) -> None:
    """Takes all of the device's blocks, so that nothing cached is left."""
    for pool in drive.scheduler._cache.pools:
        pool.release(pool.allocate(pool.num_available))


def held(drive: Drive, tier: str) -> int:
    return drive.scheduler._transfers.tiers.pools[tier].num_cached


def saves(drive: Drive) -> list[Save]:
    return [save for plan in drive.body.plans for save in plan.saves]


@pytest.mark.parametrize("groups", [(CacheGroup("full", 64),), (CacheGroup("full", 64), CacheGroup("window", 64, 40))])
def test_what_the_device_forgot_comes_back_from_the_tier(groups: tuple[CacheGroup, ...]) -> None:
    d = drive(Tier("dram", 20), groups=groups)
    assert serve(d, "a", PROMPT) == 0
    assert held(d, "dram") == BLOCKS
    forget(d)
    assert serve(d, "b", PROMPT) == 24
    assert d.scheduler._transfers.blocks_loaded == {"dram": 6}
    assert d.scheduler.stats().blocks_loaded_total == 6
    assert d.scheduler.stats().tier_blocks == held(d, "dram") >= BLOCKS


def test_copies_go_down_tier_by_tier() -> None:
    d = drive(Tier("dram", 20), Tier("ssd", 40))
    serve(d, "a", PROMPT)
    assert [(save.source, save.tier) for save in saves(d)] == [(DEVICE, "dram"), ("dram", "ssd")]
    assert (held(d, "dram"), held(d, "ssd")) == (BLOCKS, BLOCKS)


def test_only_what_is_missing_is_copied() -> None:
    d = drive(Tier("dram", 40))
    serve(d, "a", PROMPT)
    serve(d, "b", [*PROMPT, 1, 2, 3, 4, 5, 6, 7, 8])
    assert [len(save.keys) for save in saves(d)] == [BLOCKS, 3]
    assert len({key for save in saves(d) for key in save.keys}) == BLOCKS + 3


def test_a_full_tier_gives_up_what_was_used_last_long_ago() -> None:
    d = drive(Tier("dram", 8))
    serve(d, "a", PROMPT)
    serve(d, "b", OTHER)
    forget(d)
    assert serve(d, "c", OTHER) == 24
    forget(d)
    assert serve(d, "d", PROMPT) < 24


def test_a_far_tier_serves_what_the_near_one_gave_up() -> None:
    d = drive(Tier("dram", 8), Tier("ssd", 40))
    serve(d, "a", PROMPT)
    serve(d, "b", OTHER)
    forget(d)
    assert serve(d, "c", PROMPT) == 24
    assert d.scheduler._transfers.blocks_loaded["ssd"] >= 1


@pytest.mark.parametrize("late", [False, True])
def test_time_to_live(late: bool) -> None:
    d = drive(Tier("dram", 40, ttl_ns=1_000_000))
    serve(d, "a", PROMPT)
    forget(d)
    d.now_ns += 1_000_000 + 10_000 * (1 if late else -10)
    assert serve(d, "b", PROMPT) == (0 if late else 24)


@pytest.mark.parametrize("late", [False, True])
def test_time_to_live_on_the_device(late: bool) -> None:
    d = drive(kv_ttl_ns=1_000_000)
    serve(d, "a", PROMPT)
    d.now_ns += 1_000_000 + 10_000 * (1 if late else -10)
    assert serve(d, "b", PROMPT) == (0 if late else 24)


def test_a_failed_copy_leaves_nothing_behind() -> None:
    d = drive(Tier("dram", 20), Tier("ssd", 20))
    d.add(request("a", PROMPT, 4))
    d.run()
    (number,) = d.body.transfers
    d.finish_transfer(number, ok=False)
    d.settle()
    assert (held(d, "dram"), held(d, "ssd")) == (0, 0)
    forget(d)
    assert serve(d, "b", PROMPT) == 0


def test_blocks_under_way_stay_out_of_use_on_both_sides() -> None:
    d = drive(Tier("dram", 20), num_blocks=40)
    d.add(request("a", PROMPT, 4))
    d.run()
    assert d.scheduler.stats().blocks_used == BLOCKS
    assert d.scheduler._transfers.tiers.pools["dram"].num_held == BLOCKS
    forget(d)
    d.settle()
    assert d.scheduler.stats().blocks_used == 0


def test_what_does_not_go_down_at_once_goes_after_it() -> None:
    d = drive(Tier("dram", 40), num_blocks=8)
    assert serve(d, "a", PROMPT) == 0
    assert [len(save.keys) for save in saves(d)] == [2, 2, 2, 1]
    forget(d)
    assert serve(d, "b", PROMPT) == 24


def test_the_head_of_a_sequence_outlives_its_tail() -> None:
    """Copied in pieces, head first; then another needs half of the room."""
    d = drive(Tier("dram", 10), num_blocks=8)
    serve(d, "a", PROMPT)
    serve(d, "b", OTHER)
    forget(d)
    assert serve(d, "c", PROMPT) == 3 * 4


def test_a_tier_that_failed_a_request_is_not_asked_again_but_a_slower_one_is() -> None:
    d = drive(Tier("dram", 20), Tier("ssd", 40))
    serve(d, "a", PROMPT)
    for name, failing, reused in (("b", 0, 24), ("c", 1, 24), ("d", 2, 0)):
        forget(d)
        d.add(request(name, PROMPT, 4))
        asked = []
        d.run()
        while name not in d.ended:
            (number,) = d.body.transfers
            asked.append(d.body.transfers[number].tier)
            d.finish_transfer(number, ok=len(asked) > failing)
            d.run()
        d.settle()
        assert asked == ["dram", "ssd"][: failing + 1]
        assert d.ended[name].receipt.tokens_reused == reused
        assert d.outputs[name] == expected_output(request(name, PROMPT, 4))


@pytest.mark.parametrize("why", ["expires", "is evicted"])
def test_what_is_lost_again_and_again_before_its_request_runs_is_computed(why: str) -> None:
    d = drive(Tier("dram", 20), kv_ttl_ns=5 if why == "expires" else None)  # A plan comes 10 ns after a load.
    serve(d, "a", PROMPT)
    forget(d)
    d.add(request("b", PROMPT, 4))
    for _ in range(MAX_TRIES):
        d.run()
        (number,) = d.body.transfers
        d.finish_transfer(number)
        if why == "is evicted":
            forget(d)
    d.settle()
    assert d.outputs["b"] == expected_output(request("b", PROMPT, 4))
    assert sum(len(plan.loads) for plan in d.body.plans) == MAX_TRIES


@pytest.mark.parametrize(("token_ns", "loads"), [(None, True), (100, True), (25, False)])
def test_what_is_computed_sooner_is_not_loaded(token_ns: int | None, loads: bool) -> None:
    """Six blocks of 4 tokens: 300 + 6 * 100 ns to load, 24 times `token_ns` to compute."""
    d = drive(Tier("dram", 40, latency_ns=300, block_ns=100), prompt_token_ns=token_ns)
    serve(d, "a", PROMPT)
    forget(d)
    assert (serve(d, "b", PROMPT) == 24) is loads


def test_a_tier_smaller_than_a_sequence_keeps_its_head_and_copying_ends() -> None:
    d = drive(Tier("dram", 5), Tier("ssd", 40), num_blocks=8)
    serve(d, "a", PROMPT)
    assert sum(len(save.keys) for save in saves(d) if save.tier == "dram") == 5
    forget(d)
    assert serve(d, "b", PROMPT) == 5 * 4


def test_copies_are_bounded() -> None:
    """Copies that never end take a share of the device and no more, and requests go on."""
    d = drive(Tier("dram", 500), num_blocks=80)
    for i in range(MAX_SAVES + 4):
        d.add(request(f"r{i}", [100 + i] * 12, 4))
        d.run()
    assert len(d.body.transfers) <= MAX_SAVES
    assert d.scheduler.stats().blocks_used <= 80 // DEVICE_SHARE
    d.settle()
    assert d.scheduler.stats().blocks_used == 0


@pytest.mark.parametrize(
    ("tiers", "message"),
    [
        ((Tier("dram", 0),), "kv_tier dram: num_blocks must be at least 1, not 0"),
        ((Tier("", 5),), "kv_tier: a tier needs a name"),
        ((Tier("a", 5), Tier("a", 6)), "kv_tier: each needs a name of its own, not a, a"),
        ((Tier("a", 5, -1),), "kv_tier a: ttl_ns must not be negative, is -1"),
    ],
)
def test_bad_tiers_are_refused(tiers: tuple[Tier, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(tiers=tiers)


def test_kv_in_use_and_idle_over_time() -> None:
    """Three blocks held for 100, then idle: one taken up again after 50, two given up after their 80."""
    pool = BlockPool(8, ttl_ns=80)
    blocks = pool.allocate(3)
    for key, block in zip((b"a", b"b", b"c"), blocks, strict=True):
        pool.publish(block, key)
    pool.at(100)
    assert (pool.held_block_ns, pool.idle_block_ns) == (300, 0)
    pool.release(blocks)
    pool.at(150)
    pool.hold([blocks[0]])
    pool.at(400)
    assert pool.held_block_ns == 300 + 250
    assert pool.idle_block_ns == 3 * 50 + 2 * 30
    assert (pool.find(b"a"), pool.find(b"b"), pool.num_cached) == (blocks[0], None, 0)
