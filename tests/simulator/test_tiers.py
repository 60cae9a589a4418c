"""KV below a replica: what comes back, when, and what is counted of it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from headway.cli import main
from headway.scheduler.contract import DEVICE, Load, Save, ints
from headway.simulator.faults import Fault
from headway.simulator.fleet import FleetConfig
from headway.simulator.links import Link, TierLinks
from headway.simulator.pools import Pool
from headway.simulator.tier_memory import MAX_BLOCKS, TierMemory
from headway.simulator.world import World
from headway.workload.call import Call, Workload

from .drive import KV_BLOCK_BYTES, MS, Outcome, PlainTime, config, lone, run, run_fleet

DRAM = TierMemory("dram", 60 * KV_BLOCK_BYTES, bytes_per_s=1e6, latency_s=0.003)
"""1 ms a block."""
PROMPT, ANSWER, NUM_BLOCKS = 80, 4, 30


def note(seen: list, world: World):
    return lambda ok: seen.append((world.now_ns, ok))


def two_turns(gap_s: float = 5.0) -> Workload:
    """A session comes back after another has taken all of the device's blocks."""
    mine, other = tuple(range(20)), tuple(range(100, 125))
    again = Call("b", PROMPT + ANSWER + 1, ANSWER, session="s", arrival_s=None, gap_s=gap_s, hash_ids=(*mine, 50))
    first = Call("a", PROMPT, ANSWER, session="s", hash_ids=mine)
    return Workload("turns", [(first, again), (Call("c", 100, ANSWER, arrival_s=1.0, hash_ids=other),)], 4)


def served(*tiers: TierMemory, gap_s: float = 5.0, **changes: object) -> Outcome:
    time = PlainTime(attended_ns=0, gap_ns=0)
    return run(two_turns(gap_s), config(NUM_BLOCKS, **changes), time, tiers=tiers, check=True)


def test_kv_in_use_is_the_same_without_jumps() -> None:
    """But for a few per cent: of a jump, blocks are counted for half of the time in which they were taken."""
    used = []
    for jumps in (True, False):
        pool = Pool(1, config(200, late_blocks=jumps), PlainTime(), (), KV_BLOCK_BYTES)
        outcome = run_fleet(lone((0.0, 5, 150), (0.0, 4, 100)), FleetConfig((pool,), jumps=jumps))
        used.append(outcome.fleet.kv_uses()[0].mean_used_bytes)
    assert used[0] == pytest.approx(used[1], rel=0.05)


def test_a_load_takes_its_bytes_over_the_link_and_its_latency() -> None:
    """The device has 4 of the first prompt's 20 blocks: 16 come back, then 5 tokens are computed."""
    with_tier, without = ({r.call.id: r.receipt for r in o.records} for o in (served(DRAM), served()))
    assert (with_tier["b"].tokens_reused, without["b"].tokens_reused) == (PROMPT, 16)
    assert with_tier["b"].queue_ns == 16 * MS + 3 * MS
    assert with_tier["b"].ttft_ns == 16 * MS + 3 * MS + MS + 5 * 1000
    assert without["b"].ttft_ns == 3 * MS + 69 * 1000


def test_what_is_counted_of_a_tier() -> None:
    outcome = served(DRAM)
    device, dram = outcome.fleet.kv_uses()
    assert (device.memory, dram.memory) == ("device", "dram")
    assert dram.capacity_bytes == DRAM.size_bytes
    assert dram.read_bytes == dram.loaded_tokens / 4 * KV_BLOCK_BYTES > 0
    assert dram.written_bytes >= 46 * KV_BLOCK_BYTES
    assert 0 < dram.mean_idle_bytes <= dram.capacity_bytes
    assert 0 < device.mean_used_bytes + device.mean_idle_bytes <= device.capacity_bytes


@pytest.mark.parametrize(("ttl_s", "found"), [(4.0, False), (6.0, True)])
def test_a_tier_forgets_after_its_time_to_live(ttl_s: float, found: bool) -> None:
    tier = TierMemory("dram", 40 * KV_BLOCK_BYTES, 1e6, ttl_s=ttl_s)
    outcome = served(tier, kv_ttl_ns=1000 * MS)
    assert (outcome.records[-1].receipt.tokens_reused > 0) is found


def test_transfers_go_one_after_another() -> None:
    world, seen = World(), []
    link = Link(world, bytes_per_s=1000.0, latency_s=0.5)
    for size_bytes in (1000, 2000):
        link.send(size_bytes, note(seen, world))
    world.run()
    link.send(1000, note(seen, world), head_start_ns=400 * MS)
    world.run()
    assert seen == [(1500 * MS, True), (3500 * MS, True), (4600 * MS, True)]


def test_from_tier_to_tier_the_slower_link_decides() -> None:
    world, seen = World(), []
    links = TierLinks(world, (TierMemory("dram", 1e6, 1e6), TierMemory("ssd", 1e6, 1e5)), KV_BLOCK_BYTES)
    links.save(Save(0, (b"k",) * 10, "dram", (ints(),), "ssd", ints()), note(seen, world))
    world.run()
    links.save(Save(1, (b"k",) * 10, DEVICE, (ints(),), "dram", ints()), note(seen, world))
    links.load(Load(2, (b"k",) * 20, "dram", (ints(),), ints()), note(seen, world))
    world.run()
    assert seen == [(100 * MS, True), (110 * MS, True), (120 * MS, True)]
    assert [links.reads[name].sent_bytes for name in ("dram", "ssd")] == [30_000, 0]


def test_a_huge_tier_is_cut_to_what_an_index_may_cost() -> None:
    assert TierMemory("remote", 1e18, 1e9).tier(1000.0).num_blocks == MAX_BLOCKS


SMALL = ["simulate", "--agents", "coding_agent", "--sessions", "3", "--concurrency", "3", "--num-blocks", "9000"]


def test_the_command_keeps_kv_in_tiers() -> None:
    tiers = ["--kv-tier", "dram,ttl=10min", "--kv-tier", "ssd=1TB,bandwidth=5GB/s", "--kv-ttl", "1min", "--json"]
    plain, tiered = (CliRunner().invoke(main, [*SMALL, *more]) for more in (["--json"], tiers))
    assert plain.exit_code == tiered.exit_code == 0, plain.output + tiered.output
    before, after = json.loads(plain.stdout), json.loads(tiered.stdout)
    assert [use["memory"] for use in after["kv"]] == ["device", "dram", "ssd"]
    assert after["kv"][2]["capacity_bytes"] == pytest.approx(1e12, rel=1e-4)
    assert after["output_tokens"] == before["output_tokens"]
    assert after["kv"][0]["mean_idle_bytes"] < before["kv"][0]["mean_idle_bytes"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("tape", "'tape' is none of"),
        ("hbm", "'hbm' is none of"),
        ("dram,size", "'size' is not one of size, bandwidth, latency, ttl with a value, once"),
        ("dram,size=1GB,size=2GB", "once"),
        ("dram,colour=red", "'colour=red' is not one of"),
        ("dram,size=big", "size: 'big' is not a size"),
        ("dram,ttl=-1s", "ttl: "),
        ("dram=1GB,size=2GB", "once"),
        ("ssd=900000TB", "--kv-tier ssd: at most 8796 GB, 4,194,304 blocks, not 9e+08 GB"),
        ("dram,size=1kB", "--kv-tier dram: must have room for at least one block of KV"),
    ],
)
def test_a_tier_that_is_none_is_one_line(spec: str, words: str) -> None:
    result = CliRunner().invoke(main, [*SMALL, "--kv-tier", spec])
    assert result.exit_code in (1, 2)
    [line] = result.stderr.splitlines()
    assert words in line


def test_after_the_last_copy_no_deadline_of_a_load_passes_time() -> None:
    """Or means over the run, and what a tier costs, would be of a longer one."""
    outcome = served(DRAM)
    written_ns = round(outcome.fleet.kv_uses()[1].written_bytes / DRAM.bytes_per_s * 1e9)
    assert outcome.fleet.kv_uses()[1].loaded_tokens
    assert outcome.fleet.world.now_ns <= outcome.records[-1].end_ns + written_ns + 3 * MS


def test_what_was_counted_before_a_failure_still_counts() -> None:
    time = PlainTime(attended_ns=0, gap_ns=0)
    scheduler = config(NUM_BLOCKS, tiers=(DRAM.tier(KV_BLOCK_BYTES),))
    pool = Pool(1, scheduler, time, (DRAM,), KV_BLOCK_BYTES)
    turns = two_turns()
    workload = Workload("w", [*turns.sessions, (Call("d", 8, ANSWER, arrival_s=6.0),)], turns.hash_block_size)
    whole, failed = (
        run_fleet(workload, FleetConfig((pool,), faults=faults)).fleet
        for faults in ((), (Fault("replica", 5.5, 0.1), Fault("replica", 5.7, 0.1)))
    )
    before, after = whole.kv_uses(), failed.kv_uses()
    assert [use.loaded_tokens for use in after] == [use.loaded_tokens for use in before] == [0, 64]
