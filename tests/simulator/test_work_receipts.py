"""What requests needed adds up to what the run needed, which is what the arithmetic says of its steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import Precision
from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.step_shape import rows
from headway.arithmetic.work import step_work
from headway.catalog import load_catalog
from headway.scheduler.contract import StepOutcome, StepPlan
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.pools import Pool
from headway.simulator.record import Record, Work
from headway.simulator.work_receipts import WorkReceipts
from headway.simulator.work_table import WorkTable
from headway.workload.call import Workload
from tests.simulator.drive import PlainTime, config, lone
from tests.simulator.strategies import workloads

CATALOG = load_catalog()
MODEL = shape_from_config(CATALOG.config("llama-3.1-8b"))
PRECISION = Precision()
TABLE = WorkTable(MODEL, PRECISION, 32)
FIELDS = ("flops", "weight_bytes", "kv_bytes")


class Watched(WorkReceipts):
    """Asks the arithmetic about each step beside it."""

    def __init__(self, replicas: int, max_running: int) -> None:
        super().__init__([TABLE] * replicas, [max_running] * replicas)
        self.expected = np.zeros(3)
        self._plans: dict[tuple[int, int], StepPlan] = {}

    def planned(self, replica: int, plan: StepPlan, now_ns: int) -> None:
        self._plans[replica, plan.number] = plan
        super().planned(replica, plan, now_ns)

    def stepped(self, replica: int, outcome: StepOutcome, *args: object) -> None:
        plan = self._plans.pop((replica, outcome.number))
        for step in range(outcome.steps):
            self.expected += of_step(MODEL, plan.starts + step, plan.counts, plan.samples)
        super().stepped(replica, outcome, *args)  # type: ignore[arg-type]


def of_step(model, starts, counts, samples) -> np.ndarray:
    """FLOPs, weight bytes and KV bytes, as `step_work` has them."""
    work = step_work(model, rows(spans(model), starts, counts, samples).total(), PRECISION)
    kv_bytes = work.total("kv_read_bytes") + work.total("kv_write_bytes")
    return np.array([work.total("flops"), work.total("weight_bytes"), kv_bytes], np.float64)


def run(workload: Workload, jumps: bool = True, replicas: int = 2) -> tuple[Watched, dict[str, Work], list[Record]]:
    receipts, works = Watched(replicas, 8), {}
    records: list[Record] = []

    def on_record(record: Record) -> None:
        records.append(record)
        works[record.call.id] = receipts.take(record.call.id)

    pool = Pool(replicas, config(48, late_blocks=jumps), PlainTime())  # type: ignore[arg-type]
    Fleet(FleetConfig((pool,), "least-work", jumps=jumps), on_record, receipts).run(workload)
    return receipts, works, records


@settings(max_examples=25, deadline=None)
@given(workload=workloads())
def test_requests_add_up_to_the_run_and_the_run_to_its_steps(workload: Workload) -> None:
    receipts, works, records = run(workload)
    sums = [sum(getattr(work, field) for work in works.values()) for field in FIELDS]
    assert sums == list(receipts.totals)
    assert receipts.totals == pytest.approx(receipts.expected, rel=1e-9)
    assert not receipts._seats
    assert not receipts._left
    for record in records:
        assert bool(works[record.call.id].flops) == bool(record.receipt.steps)
        assert works[record.call.id].bound == ("compute" if record.receipt.steps else None)


@settings(max_examples=15, deadline=None)
@given(workload=workloads())
def test_jumps_change_nothing_but_the_rounding(workload: Workload) -> None:
    (stepped, own, records), (jumped, other, _) = run(workload, jumps=False), run(workload)
    steps = {record.call.id: record.receipt.steps for record in records}
    for name, work in own.items():
        for field in FIELDS:
            assert abs(getattr(work, field) - getattr(other[name], field)) <= 2 * steps[name], field
    assert stepped.totals == pytest.approx(jumped.totals, rel=1e-12)


ENTRY_BYTES = 32 * 2 * 8 * 128 * 2
"""Llama 3.1 8B: layers, K and V, heads, values, bytes."""


def test_kv_bytes_go_to_the_row_that_needs_them_and_weight_bytes_by_tokens() -> None:
    """Two requests side by side: a step of 10 and 21 tokens of prompt, then 19 of one token each."""
    _, works, _ = run(lone((0.0, 10, 20), (0.0, 21, 20)), replicas=1)
    one, two = np.array([1]), np.array([1, 1])
    of_prompts, of_decodes = (of_step(MODEL, 0 * n, n, one)[1] for n in (31 * one, two))
    for name, prompt in (("0", 10), ("1", 21)):
        # A chunk reads and writes each entry once; the i-th token after it reads all before it and itself.
        entries = 2 * prompt + sum(prompt + i + 1 for i in range(1, 20))
        assert works[name].kv_bytes == ENTRY_BYTES * entries
        assert works[name].weight_bytes == pytest.approx(of_prompts * prompt / 31 + 19 * of_decodes / 2, abs=2)


@pytest.mark.parametrize("name", list(CATALOG.configs))
def test_every_models_steps_add_up_to_the_arithmetic(name: str) -> None:
    model = shape_from_config(CATALOG.config(name))
    table = WorkTable(model, PRECISION, 2048)
    rng = np.random.default_rng(0)
    for _ in range(5):
        n = int(rng.integers(1, 20))
        starts, samples = rng.integers(0, 60_000, n), rng.integers(0, 2, n)
        counts = np.where(rng.random(n) < 0.5, 1, rng.integers(1, 100, n))
        own_flops, kv_bytes = table.own(starts, counts, 1)
        flops, weight_bytes = table.shared(int(counts.sum()), int(samples.sum()))
        found = (flops + int(own_flops.sum()), weight_bytes, int(kv_bytes.sum()))
        assert found == pytest.approx(of_step(model, starts, counts, samples), rel=1e-9)
    ones = np.ones(n, np.int64)
    own_flops, kv_bytes = table.own(starts, ones, 7)
    flops, weight_bytes = (7 * each for each in table.shared(n, n))
    found = (flops + int(own_flops.sum()), weight_bytes, int(kv_bytes.sum()))
    assert found == pytest.approx(sum(of_step(model, starts + i, ones, ones) for i in range(7)), rel=1e-9)
