"""Prefixes are computed once and shared by exactly those who may share them."""

from __future__ import annotations

from hashlib import blake2b as real_blake2b

import numpy as np
import pytest

from headway.scheduler import block_keys
from headway.scheduler.block_keys import BlockHasher, SessionChains
from headway.scheduler.config import CacheGroup

from .drive import Drive, config, expected_output, request

PREFIX = list(range(100, 132))


def sharing(id: str, *own: int, **more: object):
    return request(id, PREFIX + list(own), 6, **more)


@pytest.mark.parametrize("depth", [1, 2])
def test_requests_that_arrive_together_compute_their_common_prefix_once(depth: int) -> None:
    drive = Drive(config(num_blocks=200, max_running=40, max_step_tokens=400, max_context=64), depth)
    requests = [sharing(f"r{i}", 1000 + i, 7, 8) for i in range(32)]
    drive.add(*requests)
    drive.run()
    prompts = sum(e.receipt.tokens_computed - (e.receipt.tokens_generated - 1) for e in drive.ended.values())
    assert prompts == 32 + 32 * 3
    assert drive.outputs == {r.id: expected_output(r) for r in requests}


def test_a_cancelled_owners_first_waiter_takes_over() -> None:
    drive = Drive(config(max_step_tokens=8))
    drive.add(sharing("owner", 1), sharing("first", 2), sharing("second", 3))
    drive.step()
    assert drive.scheduler.stats().num_running == 1
    drive.brain.cancel("owner", drive.now_ns)
    drive.run()
    receipts = {name: e.receipt for name, e in drive.ended.items()}
    assert receipts["first"].tokens_reused == 8  # what the owner had finished stays valid
    assert receipts["second"].tokens_reused == 32
    assert drive.outputs["first"] == expected_output(sharing("first", 2))


def test_a_preempted_owners_first_waiter_takes_over() -> None:
    drive = Drive(config(num_blocks=12, max_step_tokens=8))
    drive.add(sharing("owner", 1, priority=1), sharing("waiter", 2, priority=1))
    drive.step()
    drive.add(request("urgent", [5] * 30, 6, priority=0))
    drive.run()
    assert drive.ended["owner"].receipt.preemptions >= 1
    for name, own in (("owner", 1), ("waiter", 2)):
        assert drive.outputs[name] == expected_output(sharing(name, own))
    assert drive.outputs["urgent"] == expected_output(request("urgent", [5] * 30, 6))


def test_a_waiter_of_better_priority_lends_it_to_the_owner() -> None:
    drive = Drive(config(max_step_tokens=8))
    drive.add(sharing("owner", 1, priority=5))
    drive.step()
    drive.add(request("rival", [6] * 30, 4, priority=3), sharing("waiter", 2, priority=1))
    plan = drive.step()
    assert plan is not None
    assert plan.slots.tolist() == [0]  # the owner goes on, before a rival that would otherwise outrank it
    drive.run()
    order = [a.request.id for p in drive.body.plans for a in p.admitted]
    assert order == ["owner", "waiter", "rival"]


def test_a_waiter_that_is_cancelled_takes_its_priority_back() -> None:
    drive = Drive(config(max_step_tokens=8))
    drive.add(sharing("owner", 1, priority=5))
    drive.step()
    drive.add(sharing("waiter", 2, priority=1))
    drive.step()
    owner = drive.scheduler._endings.alive["owner"]
    assert owner.priority == 1
    drive.brain.cancel("waiter", drive.now_ns)
    assert owner.priority == 5
    drive.run()


def test_a_prompt_of_whole_blocks_is_never_reused_to_its_last_token() -> None:
    drive = Drive(config())
    for name in ("cold", "warm"):
        drive.add(request(name, PREFIX, 3))
        drive.run()
    assert drive.ended["warm"].receipt.tokens_reused == len(PREFIX) - 4
    assert drive.outputs["warm"] == expected_output(request("warm", PREFIX, 3))


def test_a_block_half_computed_when_its_request_ended_is_not_findable() -> None:
    drive = Drive(config(max_step_tokens=10))
    drive.add(request("aborted", PREFIX, 3))
    drive.step()
    drive.brain.cancel("aborted", drive.now_ns)
    drive.add(request("next", PREFIX, 3))
    drive.run()
    assert drive.ended["next"].receipt.tokens_reused == 8


def test_generated_tokens_are_reused_by_the_next_turn() -> None:
    drive = Drive(config())
    first = request("one", 10, 14, session="s")
    drive.add(first)
    drive.run()
    assert first.tokens is not None
    history = first.tokens.tolist() + drive.outputs["one"]
    drive.add(request("two", [*history, 9, 9], 4, session="s"))
    drive.run()
    assert drive.ended["two"].receipt.tokens_reused == 20  # 23 tokens have KV: five whole blocks
    assert drive.outputs["two"] == expected_output(request("two", [*history, 9, 9], 4))


def test_tokens_drawn_after_an_outside_stop_serve_no_prompt_without_them() -> None:
    drive = Drive(config())
    drive.add(request("one", 8, 30))
    for _ in range(10):
        drive.step()
    drive.brain.finish("one", "stop", drive.now_ns)
    prompt = request("one", 8).tokens
    assert prompt is not None
    other = request("two", [*prompt.tolist(), *([49] * 8)], 4)
    drive.add(other)
    drive.run()
    assert drive.ended["two"].receipt.tokens_reused == 8
    assert drive.outputs["two"] == expected_output(other)


def test_salts_never_share_and_cannot_be_confused_by_moving_a_border() -> None:
    drive = Drive(config())
    for name, salt in (("a", b"org_1\x002345"), ("b", b"org_12345\x00"), ("c", b""), ("a2", b"org_1\x002345")):
        drive.add(sharing(name, 1, salt=salt))
        drive.run()
    reused = {name: e.receipt.tokens_reused for name, e in drive.ended.items()}
    assert reused == {"a": 0, "b": 0, "c": 0, "a2": 32}


def test_a_hash_collision_serves_nobodys_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_keys.BlockHasher, "_digest", lambda *_: b"always the same!")
    drive = Drive(config(num_blocks=32, max_context=64))
    requests = [request("a", [1, 2, 3, 4, 5], 3), request("bb", [6, 7, 8, 9, 5], 3)]
    for each in requests:
        drive.add(each)
        drive.run()
    assert drive.ended["bb"].receipt.tokens_reused == 0
    assert drive.outputs == {r.id: expected_output(r) for r in requests}


def test_a_reader_of_prompt_logprobs_computes_every_position() -> None:
    from headway.scheduler.request import Sampling

    drive = Drive(config())
    drive.add(sharing("a", 1))
    drive.run()
    drive.add(sharing("b", 1, sampling=Sampling(prompt_logprobs=0)))
    drive.run()
    assert drive.ended["b"].receipt.tokens_reused == 0


def test_a_window_group_needs_only_its_tail_to_reuse_a_prefix() -> None:
    drive = Drive(config(groups=(CacheGroup("full", 64), CacheGroup("window", 32, window=8))))
    for name in ("a", "b"):
        drive.add(sharing(name, 1))
        drive.run()
    assert drive.ended["b"].receipt.tokens_reused == 32
    assert drive.outputs["b"] == expected_output(sharing("b", 1))


def test_without_prefix_caching_nothing_is_shared() -> None:
    drive = Drive(config(prefix_caching=False))
    for name in ("a", "b"):
        drive.add(sharing(name, 1))
        drive.run()
    assert drive.ended["b"].receipt.tokens_reused == 0


def test_least_recently_used_prefixes_go_first_and_tails_before_heads() -> None:
    drive = Drive(config(num_blocks=12, max_context=40))
    for name, first in (("old", 1), ("new", 2)):
        drive.add(request(name, [first] * 20, 1))
        drive.run()
    drive.add(request("filler", [3] * 16, 1))  # two blocks are free: it takes two of the old tail
    drive.run()
    for name, first, reused in (("new again", 2, 16), ("old again", 1, 8)):
        before = drive.scheduler.stats().prefix_hits_total
        drive.add(request(name, [first] * 20, 1))
        drive.run()
        assert drive.scheduler.stats().prefix_hits_total - before == reused


def test_a_sessions_next_turn_hashes_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counting(*args: object, **kwargs: object):
        nonlocal calls
        calls += 1
        return real_blake2b(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(block_keys, "blake2b", counting)
    hasher = BlockHasher(16, b"key")
    chains = SessionChains(hasher, 4)
    tokens = np.arange(16_000, dtype=np.int32)
    keys = chains.keys_for(tokens, b"salt", "s")
    chains.remember("s", b"salt", tokens, keys)
    calls = 0
    longer = np.concatenate([tokens, np.arange(32, dtype=np.int32)])
    assert chains.keys_for(longer, b"salt", "s")[:1000] == keys
    assert calls == 2
    edited = longer.copy()
    edited[8_000] = 5
    calls = 0
    assert chains.keys_for(edited, b"salt", "s")[:500] == keys[:500]
    assert calls == 502
    calls = 0
    chains.keys_for(longer, b"another tenant", "s")
    assert calls == 1003


def test_where_no_prefix_can_be_reused_nothing_is_kept_under_a_key() -> None:
    drive = Drive(config(groups=(CacheGroup("full", 24), CacheGroup("state", 3))))
    for i in range(6):
        drive.add(request(f"r{i}", [11, 12, 13, 14, 21, 22], 3))
    drive.run()
    assert all(pool.num_cached == 0 for pool in drive.scheduler._cache.pools)


def test_session_chains_are_bounded() -> None:
    chains = SessionChains(BlockHasher(4, b""), 3)
    for i in range(10):
        tokens = np.full(8, i, np.int32)
        chains.remember(f"s{i}", b"", tokens, chains.keys_for(tokens, b"", None))
    assert len(chains._chains) == 3
    assert chains._num_tokens == 24


def test_what_is_found_of_a_long_prompt_takes_no_room_in_a_window_group() -> None:
    groups = (CacheGroup("full", 52), CacheGroup("window", 20, 1))
    drive = Drive(config(groups=groups, max_running=1))
    for name, length in (("a", 65), ("b", 95)):
        drive.add(request(name, length, 4))
        drive.run()
    assert drive.ended["b"].receipt.tokens_reused == 64
