"""Replicas whose attention and feed-forward are on chips of two kinds: step times against the planner's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headway.arithmetic.formats import precision
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode, rows
from headway.catalog import CatalogError
from headway.planner.afd import afd_report
from headway.planner.deployment import Deployment
from headway.roofline import BOUNDS
from headway.simulator.simulation import Setup, simulate
from headway.simulator.split_time import FeedForwardSide, SplitTime
from headway.workload.call import Call, Workload
from tests.simulator.test_cuts import model_of
from tests.simulator.test_step_time import CATALOG, timed

FP8 = precision("fp8")
B200, LPX = CATALOG.system("hgx-b200"), CATALOG.system("lpx-256")
SRAM = replace(LPX, chip=replace(LPX.chip, bf16_flops_per_s=615e12))
"""Routers multiply in bf16, for which nothing is published: half of the fp8 rate."""


def split_time(name: str = "llama-3.1-70b", chips: int = 256, host_gap_s: float = 0.0, **cut: int) -> SplitTime:
    side = FeedForwardSide(SRAM, chips)
    return SplitTime(model_of(name), FP8, Parallelism(**(cut or {"data": 8})), B200, side, 1024, host_gap_s)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(
        [("llama-3.1-70b", 256), ("gemma-3-27b", 128), ("qwen3-30b-a3b", 80), ("nemotron-3-super-120b-a12b", 256)]
    ),
    st.sampled_from([1, 3, 8]),
    st.integers(1, 200),
    st.integers(1, 4000),
)
def test_a_steady_decode_is_the_planners(model: tuple[str, int], attention: int, batch: int, context: int) -> None:
    name, chips = model
    where = Deployment(name, model_of(name), B200, FP8, Parallelism())
    assume(replace(where, cut=Parallelism(data=attention)).memory(context, batch).fits)
    planned = afd_report(where, SRAM, attention, chips, batch, context)
    timer = split_time(name, chips, data=attention)
    step = timed(timer, decode(timer.spans, batch, context))
    assert step.device_ns == pytest.approx(planned.step_s * 1e9, abs=1, rel=1e-9)


def test_many_steps_at_once_are_the_same_as_one_by_one() -> None:
    timer = split_time("gemma-3-27b", 128, 1e-4, data=2)
    starts = 700 * np.arange(40, dtype=np.int64)
    steps = [rows(timer.spans, starts + k).total() for k in range(30)]
    columns = (
        [np.array([getattr(s, field)[g] for s in steps]) for g in range(len(timer.spans))]
        for field in ("pairs", "reads", "writes")
    )
    together = timer.several(30, (40, 40, 40, *columns))
    alone = [timed(timer, s) for s in steps]
    assert together.device_ns.tolist() == [step.device_ns for step in alone]
    assert np.broadcast_to(together.bounds, 30).tolist() == [step.bound for step in alone]
    assert {together.host_ns} == {step.host_ns for step in alone} == {100_000}


def test_what_bounds_it_is_what_a_micro_batch_spends_most_on() -> None:
    timer = split_time()
    assert BOUNDS[timed(timer, decode(timer.spans, 64, 100_000)).bound] == "memory_bandwidth"
    assert BOUNDS[timed(timer, decode(timer.spans, 1024, 1)).bound] == "network"
    assert BOUNDS[timed(split_time(host_gap_s=1.0), decode(timer.spans, 64, 1)).bound] == "host"


def test_attention_may_be_cut_by_heads_and_context_too() -> None:
    """A long prompt's cache then is read by all chips, for an all-reduce in each layer."""
    dealt, cut, shared = split_time(), split_time(tensor=8), split_time(data=2, context=4)
    shape = decode(dealt.spans, 2, 120_000)
    assert timed(cut, shape).device_ns < timed(dealt, shape).device_ns
    assert timed(shared, shape).device_ns < timed(dealt, shape).device_ns
    alone = replace(B200, scaleup=None)
    with pytest.raises(CatalogError, match="after attention needs a scale-up link"):
        SplitTime(model_of("llama-3.1-70b"), FP8, Parallelism(tensor=8), alone, FeedForwardSide(LPX, 256), 64)
    with pytest.raises(ShapeError, match="--data, --tensor and --context-parallel only"):
        split_time(data=2, pipeline=2)


@pytest.mark.parametrize("split", [False, True])
def test_jumps_change_nothing_where_rows_are_dealt_out(split: bool) -> None:
    cut, side = (Parallelism(data=2), FeedForwardSide(B200, 2)) if split else (Parallelism(2, 2, 2, 2, 2), None)
    setup = Setup(model_of("gpt-oss-20b"), B200, FP8, cut, side, max_running=5)
    calls = [[Call(str(i), 40 * i + 1, 3 * i + 1, session=str(i), arrival_s=0.002 * i)] for i in range(9)]
    jumped, stepped = (simulate(replace(setup, jumps=jumps), Workload("", calls)) for jumps in (True, False))
    assert jumped == stepped
    assert jumped.finished == 9


def test_feed_forward_that_does_not_fit_says_what_would() -> None:
    model = model_of("llama-3.1-70b")
    with pytest.raises(ShapeError, match="--ffn-chips 126 would do"):
        FeedForwardSide(LPX, 8).check_fits(model, FP8, 0.9)
    FeedForwardSide(LPX, 126).check_fits(model, FP8, 0.9)
