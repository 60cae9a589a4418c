"""Shares add up: every nanosecond of every step is charged to exactly one request."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.scheduler.config import Speculation
from headway.scheduler.ledger import share

from .drive import Drive, config, request

totals = st.integers(0, 10**12)


@given(totals, st.lists(st.integers(1, 4096), min_size=1, max_size=40))
def test_shares_are_the_exact_total_and_each_within_one_of_its_proportion(total: int, weights: list[int]) -> None:
    shares = share(total, np.array(weights), sum(weights))
    assert shares.sum() == total
    assert all(abs(s * sum(weights) - total * w) <= sum(weights) for s, w in zip(shares.tolist(), weights, strict=True))


def test_what_is_left_over_goes_to_the_first() -> None:
    assert share(10, np.array([1, 1, 1]), 3).tolist() == [4, 3, 3]
    assert share(7, np.array([3, 3, 1]), 7).tolist() == [3, 3, 1]
    assert share(100, np.array([333, 333, 334]), 1000).tolist() == [34, 33, 33]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("speculation", [None, Speculation()])
def test_receipts_add_up_to_the_bill(speculation: Speculation | None, depth: int) -> None:
    drive = Drive(config(num_blocks=20, speculation=speculation), depth)
    drive.add(*(request(f"r{'x' * i}", [i] * (5 + 3 * i), 17) for i in range(7)))
    drive.body.device_ns = 1009
    for _ in range(5):
        drive.step()
    drive.brain.cancel("rxx", drive.now_ns)
    drive.run()
    receipts = [e.receipt for e in drive.ended.values()]
    plans = drive.body.plans
    assert sum(r.device_share_ns for r in receipts) == 1009 * len(plans)
    assert sum(r.steps for r in receipts) == sum(len(p.slots) for p in plans)
    assert sum(r.tokens_computed for r in receipts) == sum(int(p.counts.sum()) for p in plans)
    assert sum(r.tokens_drafted for r in receipts) == sum(int(p.drafts.sum()) for p in plans)
    if depth == 1:
        assert sum(r.device_share_ns + r.host_share_ns for r in receipts) == 2000 * len(plans)


def test_a_receipts_times_are_those_of_the_clock() -> None:
    drive = Drive(config(max_running=1))
    drive.add(request("first", 4, 2), request("second", 4, 3))
    drive.run()
    receipt = drive.ended["second"].receipt
    planned = [10 + 2010 * n for n in range(8)]
    assert receipt.queue_ns == planned[2]
    assert receipt.prefill_ns == 2000
    assert receipt.decode_ns == 2 * 2010
    assert receipt.ttft_ns == planned[2] + 2000
    assert receipt.tpot_ns == 2010
