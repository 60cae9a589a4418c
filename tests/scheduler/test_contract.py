"""The contract, tried with a body that has no model: what later bodies, tiers and pipelines rely on."""

from __future__ import annotations

import numpy as np
import pytest

from headway.scheduler.commit import OutcomeError
from headway.scheduler.config import CacheGroup, ConfigError, Speculation
from headway.scheduler.contract import IN_FLIGHT, StepOutcome, StepPlan

from .drive import Drive, config, expected_output, request

FULL, WINDOW, STATE = CacheGroup("full", 64), CacheGroup("window", 40, window=6), CacheGroup("state", 8)
GROUPS = [(FULL,), (WINDOW,), (STATE,), (FULL, WINDOW), (FULL, STATE), (WINDOW, CacheGroup("window", 64, 20), FULL)]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("groups", GROUPS, ids=lambda groups: "+".join(g.kind for g in groups))
def test_every_mix_of_cache_groups_and_depths_gives_the_same_tokens(groups: tuple[CacheGroup, ...], depth: int) -> None:
    drive = Drive(config(groups=groups), depth)
    requests = [request(f"r{i}", 3 + 7 * i, 10 + i) for i in range(10)]
    drive.add(*requests)
    drive.run()
    assert drive.outputs == {r.id: expected_output(r) for r in requests}
    assert {e.reason for e in drive.ended.values()} == {"length"}
    assert drive.scheduler.is_idle
    assert all(pool.num_held == 0 for pool in drive.scheduler._cache.pools)


def test_a_step_holds_decodes_first_then_begun_prompts_then_new_ones() -> None:
    drive = Drive(config(prefix_caching=False))
    drive.add(request("decoding", 5, 20))
    drive.step()
    drive.add(request("begun", 60), request("new", 9))
    first = drive.step()
    assert first is not None
    assert first.counts.tolist() == [1, 31]
    second = drive.step()
    assert second is not None
    assert second.counts.tolist() == [1, 29, 2]
    assert second.samples.tolist() == [True, True, False]


def test_a_prompt_delays_no_decode_however_long_it_is() -> None:
    drive = Drive(config(num_blocks=128))
    drive.add(*(request(f"d{i}", 4, 30) for i in range(5)))
    drive.step()
    drive.add(request("long", 200, 1))
    for _ in range(6):
        plan = drive.step()
        assert plan is not None
        assert plan.counts[:5].tolist() == [1] * 5
        assert plan.counts.sum() <= 32


def test_rows_whose_token_is_in_flight_are_planned_with_a_placeholder() -> None:
    drive = Drive(config(), depth=2)
    drive.add(request("a", 4))
    drive.submit()
    plan = drive.submit()
    assert plan is not None
    assert plan.token_ids.tolist() == [IN_FLIGHT]
    assert plan.starts.tolist() == [4]


def test_blocks_freed_in_flight_return_at_that_plans_commit() -> None:
    drive = Drive(config(prefix_caching=False), depth=2)
    drive.add(request("a", 9, 20))
    drive.submit()
    drive.submit()
    drive.brain.cancel("a", drive.now_ns)
    drive.check()
    assert "a" not in drive.ended
    assert drive.scheduler.stats().blocks_used == 3
    drive.collect()
    assert drive.scheduler.stats().blocks_used == 3
    drive.collect()
    assert drive.scheduler.stats().blocks_used == 0
    assert drive.ended["a"].reason == "cancelled"
    assert drive.ended["a"].receipt.steps == 2


def test_a_row_that_stops_while_its_next_plan_is_in_flight_draws_no_more() -> None:
    drive = Drive(config(), depth=2, script=lambda _, position: 0 if position == 6 else 5)
    drive.add(request("a", 4, 20))
    drive.run()
    assert drive.outputs["a"] == [5, 5, 0]
    assert drive.ended["a"].reason == "stop"
    assert drive.ended["a"].receipt.tokens_generated == 3


@pytest.mark.parametrize("depth", [1, 2])
def test_accepted_drafts_vary_by_row_and_change_no_token(depth: int) -> None:
    plain, speculating = Drive(config(), depth), Drive(config(speculation=Speculation(4, 16)), depth)
    requests = [request(f"r{'x' * i}", 5 + i, 40) for i in range(4)]
    for drive in (plain, speculating):
        drive.add(*requests)
        drive.run()
        assert drive.outputs == {r.id: expected_output(r) for r in requests}
    receipts = [e.receipt for e in speculating.ended.values()]
    assert 0 < sum(r.tokens_accepted for r in receipts) < sum(r.tokens_drafted for r in receipts)
    assert len(speculating.body.plans) < len(plain.body.plans)


def test_a_stop_token_among_accepted_drafts_ends_the_row_there() -> None:
    cycle = [1, 2, 3, 4]
    drive = Drive(
        config(speculation=Speculation()), script=lambda _, position: 0 if position == 30 else cycle[position % 4]
    )
    drive.add(request("a", [cycle[i % 4] for i in range(12)], 60))
    drive.run()
    assert drive.outputs["a"] == [*(cycle[p % 4] for p in range(12, 30)), 0]
    assert drive.ended["a"].reason == "stop"


def test_drafts_never_pass_the_limit() -> None:
    drive = Drive(config(speculation=Speculation(8, 64)), script=lambda *_: 7)
    drive.add(request("a", [7] * 10, 5))
    drive.run()
    assert drive.outputs["a"] == [7] * 5
    assert all((plan.starts + plan.counts <= 15).all() for plan in drive.body.plans)


@pytest.mark.parametrize("late_blocks", [False, True])
@pytest.mark.parametrize("num_blocks", [64, 15])
def test_repeats_jump_to_the_same_state_as_single_steps(num_blocks: int, late_blocks: bool) -> None:
    def run(jump: bool) -> tuple[dict[str, list[int]], list[tuple[int, int]], int]:
        drive = Drive(config(num_blocks=num_blocks, late_blocks=late_blocks, prefix_caching=False))
        drive.add(*(request(f"r{i}", 3 + i, 21) for i in range(3)))
        drive.step()
        used = []
        while (plan := drive.submit()) is not None:
            if jump:
                _collect_repeated(drive, plan)
            else:
                drive.collect()
            used.append((drive.scheduler.stats().blocks_used, drive.scheduler.stats().preemptions_total))
        return drive.outputs, used, len(drive.body.plans)

    single, jumped = run(jump=False), run(jump=True)
    assert jumped[0] == single[0]
    assert set(jumped[1]) <= set(single[1])
    assert jumped[1][-1] == single[1][-1]
    assert jumped[2] < single[2]


def test_a_jump_crosses_block_borders_only_where_blocks_may_come_late() -> None:
    def plans(**changes: object) -> int:
        drive = Drive(config(num_blocks=64, **changes))
        drive.add(request("a", 5, 41))
        drive.step()
        while (plan := drive.submit()) is not None:
            _collect_repeated(drive, plan)
        return len(drive.body.plans)

    assert plans(late_blocks=True) == 2
    assert plans() == 12


def _collect_repeated(drive: Drive, plan: StepPlan) -> None:
    """Runs the plan as often as it allows, on a body that only draws."""
    drive.plans.clear()
    drive.body.pending.clear()
    drive.body._apply(plan)
    drawing = [
        (drive.body.rows[slot].request_id, end)
        for slot, end, draws in zip(
            plan.slots.tolist(), (plan.starts + plan.counts).tolist(), plan.samples, strict=True
        )
        if draws
    ]
    tokens = [drive.body.script(name, end + step) for step in range(plan.repeats) for name, end in drawing]
    outcome = StepOutcome(plan.number, np.array(tokens, np.int64), steps=plan.repeats, device_ns=plan.repeats * 1000)
    committed = drive.brain.commit(outcome, drive.now_ns)
    at = 0
    for name, count in zip(committed.request_ids, committed.counts.tolist(), strict=True):
        drive.outputs[name] += committed.token_ids[at : at + count].tolist()
        at += count
    drive.check()


def test_repeats_stop_before_a_limit_and_before_a_block_is_needed() -> None:
    drive = Drive(config())
    drive.add(request("a", 5, 20), request("b", [1] * 6, 3))
    drive.step()
    plan = drive.step()
    assert plan is not None
    assert plan.repeats == 2  # "b" may draw two more; its block has room for two more positions


def test_rows_with_one_prefix_are_named_as_a_group() -> None:
    drive = Drive(config())
    prefix = list(range(20, 36))
    drive.add(request("owner", [*prefix, 1], 30), *(request(f"r{i}", [*prefix, 2, i], 30) for i in range(3)))
    for _ in range(3):
        plan = drive.step()
    assert plan is not None
    (group,) = plan.prefix_groups
    assert len(group.slots) == 4
    assert group.blocks == 4


def test_a_failed_step_ends_its_requests_and_no_others() -> None:
    drive = Drive(config())
    drive.add(request("a", 5), request("b", [1] * 40))
    drive.body.fail_next = "out of memory"
    drive.step()
    assert {i: e.reason for i, e in drive.ended.items()} == {"a": "error", "b": "error"}
    assert drive.ended["a"].error == "out of memory"
    drive.add(request("c", 5))
    drive.run()
    assert drive.outputs["c"] == expected_output(request("c", 5))


def test_an_unusable_row_ends_alone() -> None:
    drive = Drive(config())
    drive.add(request("a", 5), request("b", [1] * 6))
    drive.body.bad_slots = {0}
    drive.step()
    drive.body.bad_slots = set()
    drive.run()
    assert drive.ended["a"].reason == "error"
    assert drive.outputs == {"a": [], "b": expected_output(request("b", [1] * 6))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"number": 1}, "outcome of step 1 where step 0 was due"),
        ({"token_ids": np.zeros(2, np.int64)}, "2 drawn tokens where 1 were due"),
        ({"steps": 3}, "1 drawn tokens where 3 were due"),
        ({"steps": 3, "token_ids": np.zeros(3, np.int64)}, "ran 3 times where 1 to 1 were allowed"),
    ],
)
def test_an_outcome_that_is_not_the_plans_is_refused(change: dict[str, object], message: str) -> None:
    drive = Drive(config())
    drive.add(request("a", 5))
    drive.submit()
    outcome = {"number": 0, "token_ids": np.zeros(1, np.int64)} | change
    with pytest.raises(OutcomeError, match=message):
        drive.scheduler.commit(StepOutcome(**outcome), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": ()}, "groups"),
        ({"block_size": 12}, "block_size must be a power of two"),
        ({"max_step_tokens": 4}, r"max_step_tokens \(4\) must be at least max_running \(8\)"),
        ({"groups": (CacheGroup("window", 4),)}, "window must be positive"),
        ({"groups": (CacheGroup("full", 0),)}, "num_blocks"),
        ({"speculation": Speculation(), "token_ids": False}, "token_ids"),
    ],
)
def test_contradicting_settings_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**changes)
