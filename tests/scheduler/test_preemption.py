"""When blocks or slots run out: who yields, and that nothing is lost by it."""

from __future__ import annotations

import pytest

from headway.scheduler.config import CacheGroup
from headway.scheduler.refusal import Invalid, NeverFits, QueueFull

from .drive import Drive, config, expected_output, request


def distinct(id: str, length: int, max_tokens: int, **more: object):
    """Shares no block with others."""
    return request(id, [ord(id[0])] * length, max_tokens, **more)


@pytest.mark.parametrize("depth", [1, 2])
def test_the_latest_yields_and_comes_back_with_the_same_tokens(depth: int) -> None:
    drive = Drive(config(num_blocks=14), depth)
    requests = [distinct(id, 8, 20) for id in "abcd"]
    drive.add(*requests)
    drive.run()
    assert drive.outputs == {r.id: expected_output(r) for r in requests}
    preempted = {name for name, e in drive.ended.items() if e.receipt.preemptions}
    assert preempted
    assert "a" not in preempted


@pytest.mark.parametrize("depth", [1, 2])
def test_a_better_priority_puts_out_a_full_machine(depth: int) -> None:
    drive = Drive(config(num_blocks=16), depth)
    drive.add(*(distinct(id, 8, 24) for id in "ab"))
    for _ in range(4):
        drive.step()
    drive.add(distinct("urgent", 40, 4, priority=-100))
    drive.run()
    assert next(iter(drive.ended)) == "urgent"
    for id in "ab":
        assert drive.outputs[id] == expected_output(distinct(id, 8, 24))


def test_a_better_priority_gets_a_slot_too() -> None:
    drive = Drive(config(max_running=1))
    drive.add(distinct("a", 4, 30))
    for _ in range(3):
        drive.step()
    drive.add(distinct("urgent", 4, 2, priority=-1))
    drive.run()
    assert list(drive.ended) == ["urgent", "a"]
    assert drive.ended["a"].receipt.preemptions == 1
    assert drive.outputs["a"] == expected_output(distinct("a", 4, 30))


def test_within_a_priority_arrival_decides_and_nobody_overtakes() -> None:
    drive = Drive(config(num_blocks=16))
    drive.add(distinct("big", 40, 8), distinct("huge", 60, 1), distinct("small", 4, 1))
    drive.run()
    admitted = [a.request.id for plan in drive.body.plans for a in plan.admitted]
    assert admitted == ["big", "huge", "small"]


def test_one_more_token_than_the_machine_can_ever_hold_is_refused_with_the_numbers() -> None:
    drive = Drive(config(num_blocks=10))
    drive.add(distinct("fits", 30, 10))
    with pytest.raises(NeverFits, match=r"41 tokens .* need 11 blocks of the full cache group, which has 10"):
        drive.add(distinct("not", 30, 11))
    with pytest.raises(NeverFits, match=r"257 tokens .* over the context of 256"):
        drive.add(distinct("long", 250, 7))
    drive.run()
    assert drive.outputs["fits"] == expected_output(distinct("fits", 30, 10))


def test_the_queue_is_bounded_by_requests_and_by_tokens() -> None:
    drive = Drive(config(max_queued_requests=3, max_queued_tokens=50))
    drive.add(distinct("a", 60, 1))  # an empty queue takes any request that fits
    with pytest.raises(QueueFull, match="60 tokens are queued; the limit is 50"):
        drive.add(distinct("b", 4, 1))
    drive.run()
    drive.add(*(distinct(id, 4, 1) for id in "cde"))
    with pytest.raises(QueueFull, match="3 requests are queued; the limit is 3"):
        drive.add(distinct("f", 4, 1))
    drive.run()
    drive.add(distinct("f", 4, 1))
    drive.run()
    assert drive.ended["f"].reason == "length"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (request("a", []), "prompt: at least 1 token"),
        (request("a", 4, -1), "max_tokens: at least 0"),
        (request("twice", 4), "'twice' is in progress"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong, message: str) -> None:
    drive = Drive(config())
    drive.add(request("twice", 4))
    with pytest.raises(Invalid, match=message):
        drive.scheduler.add(wrong, 0)
    drive.run()
    assert list(drive.ended) == ["twice"]


def test_a_prompt_alone_is_computed_and_draws_nothing() -> None:
    drive = Drive(config())
    drive.add(request("a", 50, 0))
    drive.run()
    assert drive.outputs["a"] == []
    assert drive.ended["a"].reason == "length"
    assert drive.ended["a"].receipt.tokens_computed == 50


def test_a_request_goes_on_from_what_an_earlier_engine_generated() -> None:
    whole = request("a", 7, 12)
    assert whole.tokens is not None
    output = expected_output(whole)
    resumed = type(whole)("a", 7, 12, tokens=_joined(whole.tokens, output[:5]), stop_token_ids=(0,))
    drive = Drive(config())
    drive.add(resumed)
    drive.run()
    assert drive.outputs["a"] == output[5:]


def _joined(tokens, more: list[int]):
    import numpy as np

    return np.concatenate([tokens, more])


def test_a_deadline_ends_only_who_is_still_queued() -> None:
    drive = Drive(config(max_running=1))
    drive.add(distinct("a", 4, 20, deadline_ns=5000), distinct("b", 4, 2, deadline_ns=5000))
    drive.run()
    assert drive.ended["a"].reason == "length"
    assert drive.ended["b"].reason == "expired"
    assert drive.ended["b"].receipt.steps == 0


def test_cancelling_in_every_state_frees_everything() -> None:
    drive = Drive(config(num_blocks=20, max_step_tokens=8), depth=2)
    shared = list(range(60, 92))
    drive.add(request("decoding", 4, 30), request("begun", shared, 4), request("parked", [*shared, 1], 4))
    for _ in range(3):
        drive.step()
    drive.add(request("waiting", [9] * 70, 4))
    drive.submit()
    for name in ("parked", "waiting", "decoding", "begun"):
        assert drive.brain.cancel(name, drive.now_ns)
        assert not drive.brain.cancel("unknown", drive.now_ns)
        drive.check()
    drive.run()
    assert {e.reason for e in drive.ended.values()} == {"cancelled"}
    assert not drive.brain.cancel("decoding", drive.now_ns)
    assert drive.scheduler.is_idle
    assert drive.scheduler.stats().blocks_used == 0


def test_the_id_of_an_ended_request_can_be_used_again() -> None:
    drive = Drive(config())
    for _ in range(2):
        drive.ended.clear()
        drive.add(request("a", 4))
        drive.run()
        assert drive.ended["a"].reason == "length"


def test_static_batching_admits_nobody_until_the_batch_is_done() -> None:
    drive = Drive(config(batching="static", max_running=2))
    drive.add(distinct("a", 4, 2), distinct("b", 4, 9), distinct("c", 4, 2))
    drive.run()
    first_of_c = next(p.number for p in drive.body.plans if any(a.request.id == "c" for a in p.admitted))
    assert first_of_c == drive.ended["b"].receipt.steps
    assert drive.outputs["c"] == expected_output(distinct("c", 4, 2))


def test_a_static_batch_fills_its_seats_over_as_many_steps_as_the_prompts_need() -> None:
    drive = Drive(config(batching="static", max_running=3, max_step_tokens=8))
    drive.add(*(distinct(id, 7, 9) for id in "abcd"))
    drive.step()
    drive.add(distinct("e", 2, 2))
    drive.run()
    batches = [[a.request.id for a in p.admitted] for p in drive.body.plans]
    assert [batch for batch in batches if batch] == [["a", "b"], ["c"], ["d", "e"]]
    assert batches.index(["d", "e"]) >= max(drive.ended[id].receipt.steps for id in "abc")
    assert all(drive.outputs[id] == expected_output(distinct(id, 7, 9)) for id in "abcd")


def test_a_static_batch_that_has_begun_without_others_takes_none_of_them_later() -> None:
    drive = Drive(config(batching="static", max_running=3, max_step_tokens=8))
    drive.add(distinct("a", 4, 9))
    drive.step()
    drive.add(distinct("b", 4, 2))
    drive.run()
    first_of_b = next(p.number for p in drive.body.plans if any(a.request.id == "b" for a in p.admitted))
    assert first_of_b == drive.ended["a"].receipt.steps


def test_worst_case_reservation_never_preempts_and_runs_fewer_at_once() -> None:
    def run(reservation: str) -> tuple[int, int]:
        drive = Drive(config(num_blocks=24, reservation=reservation))
        drive.add(*(distinct(id, 4, 28) for id in "abcdef"))
        drive.run()
        return drive.scheduler.stats().preemptions_total, max(len(p.slots) for p in drive.body.plans)

    assert run("worst_case") == (0, 3)
    preemptions, running = run("demand")
    assert preemptions > 0
    assert running > 3


def test_a_group_that_is_short_of_states_admits_as_many_as_it_has() -> None:
    drive = Drive(config(groups=(CacheGroup("full", 64), CacheGroup("state", 2))))
    drive.add(*(distinct(id, 4, 3) for id in "abcd"))
    drive.run()
    assert max(len(p.slots) for p in drive.body.plans) == 2
    assert len(drive.ended) == 4


@pytest.mark.parametrize("depth", [1, 2])
def test_a_prompt_longer_than_all_windows_together_is_computed_in_chunks(depth: int) -> None:
    """What falls behind a window is given back as the prompt goes on: it need not fit there as a whole."""
    groups = (CacheGroup("full", 64), CacheGroup("window", 6, window=8))
    drive = Drive(config(groups=groups, max_step_tokens=8, max_context=200), depth)
    requests = [distinct(id, 100, 4) for id in "ab"]
    drive.add(*requests)
    drive.run()
    assert drive.outputs == {r.id: expected_output(r) for r in requests}
