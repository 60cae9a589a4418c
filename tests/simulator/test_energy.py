"""Joules of a call: what its FLOPs and bytes take goes to it, the rest by time, and together they are the run's."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import Precision
from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode, prefill
from headway.catalog import load_catalog
from headway.cli import main
from headway.planner.deployment import Deployment
from headway.planner.price import Workload as Asked
from headway.planner.request import request_receipt
from headway.roofline.coefficients import Coefficients
from headway.roofline.energy import WorkEnergy, work_energy
from headway.simulator.energy_meter import EnergyMeter, energy_meter
from headway.simulator.faults import Fault
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.pools import Pool
from headway.simulator.record import Record, Work
from headway.simulator.simulation import Setup, simulate
from headway.simulator.split_time import FeedForwardSide
from headway.simulator.work_receipts import WorkReceipts, work_receipts
from headway.simulator.work_table import WorkTable
from headway.workload.call import Workload

from .drive import PlainTime, config, lone
from .strategies import workloads

CATALOG = load_catalog()
MODEL = shape_from_config(CATALOG.config("llama-3.1-8b"))
A100 = CATALOG.system("hgx-a100")
"""Both of whose peaks at once take less than its power limit, by the catalog's estimates."""
TABLE = WorkTable(MODEL, Precision(), 32)
ENTRY_BYTES = 32 * 2 * 8 * 128 * 2
"""Llama 3.1 8B: layers, K and V, heads, values, bytes."""
PAIR_FLOPS = 32 * 2 * 2 * 32 * 128
"""Layers, QK and PV, multiply and add, heads, values."""


def run(workload: Workload, meter: EnergyMeter, *faults: Fault, jumps: bool = True, replicas: int = 2):
    receipts, works = WorkReceipts([TABLE] * replicas, [8] * replicas, [meter] * replicas), {}

    def on_record(record: Record) -> None:
        works[record.call.id] = receipts.take(record.call.id)

    pool = Pool(replicas, config(48, late_blocks=jumps), PlainTime())  # type: ignore[arg-type]
    fleet = Fleet(FleetConfig((pool,), "least-work", jumps=jumps, faults=faults), on_record, receipts)
    fleet.run(workload)
    return works, fleet


meters = st.builds(
    EnergyMeter,
    st.sampled_from([0.1, 333.3, 700.0, 5600.0]),
    st.one_of(
        st.none(),
        st.builds(
            WorkEnergy, st.sampled_from([0.0, 7.5e-13, 1e-9]), st.sampled_from([0.0, 3e-11, 1e-7]), st.just(False)
        ),
    ),
)


@settings(max_examples=40, deadline=None)
@given(workloads(), meters, st.sampled_from([(), (Fault("replica", 0.0137, 0.02), Fault("replica", 0.0501, 0.01, 0))]))
def test_receipts_add_up_to_the_run(workload: Workload, meter: EnergyMeter, faults: tuple[Fault, ...]) -> None:
    """To the nanojoule, whatever fails, and though FLOPs and bytes would take more than there is."""
    works, fleet = run(workload, meter, *faults)
    busy_nj = [meter.busy_nj(sum(replica.executor.bound_ns)) for replica in fleet.replicas]
    assert sum(work.energy_nj for work in works.values()) == sum(busy_nj)
    assert all(work.energy_nj >= 0 for work in works.values())
    unknown = [work.work_nj is None for work in works.values() if work.flops]
    assert all(unknown) if meter.work is None else not any(unknown)


@settings(max_examples=15, deadline=None)
@given(workload=workloads())
def test_jumps_change_nothing_but_the_rounding(workload: Workload) -> None:
    meter = EnergyMeter(700.0, WorkEnergy(7.5e-16, 3e-14, False))
    (stepped, fleet), (jumped, _) = run(workload, meter, jumps=False), run(workload, meter)
    steps = sum(replica.executor.num_steps for replica in fleet.replicas)
    for name, work in stepped.items():
        assert abs(work.energy_nj - jumped[name].energy_nj) <= 3 * steps


def test_who_reads_more_pays_more() -> None:
    """Two calls side by side: a step of 1 and 30 tokens of prompt, then 19 of a token each. Time is shared alike."""
    work = WorkEnergy(1e-15, 2e-13, False)
    long = lone((0.0, 1, 20), (0.0, 30, 20))
    by_work, _ = run(long, EnergyMeter(100.0, work), replicas=1)
    by_time, _ = run(long, EnergyMeter(100.0), replicas=1)
    pairs = {"0": 1 + sum(1 + i for i in range(1, 20)), "1": 30 * 31 // 2 + sum(30 + i for i in range(1, 20))}
    entries = {"0": 2 + sum(2 + i for i in range(1, 20)), "1": 60 + sum(31 + i for i in range(1, 20))}
    own = {n: 1e9 * (pairs[n] * PAIR_FLOPS * 1e-15 + entries[n] * ENTRY_BYTES * 2e-13) for n in ("0", "1")}
    first = {
        n: 1e9 * (k * (k + 1) / 2 * PAIR_FLOPS * 1e-15 + 2 * k * ENTRY_BYTES * 2e-13) for n, k in (("0", 1), ("1", 30))
    }
    for name, share in (("0", 1 / 31), ("1", 30 / 31)):
        others = share * sum(first.values()) + sum(own[n] - first[n] for n in own) / 2
        assert by_work[name].energy_nj - by_time[name].energy_nj == pytest.approx(own[name] - others, abs=50)


def test_where_a_part_is_unknown_the_sum_is() -> None:
    """A replica fails, and its call goes on at one of which more is known, or less."""
    known, by_time, unmetered = EnergyMeter(100.0, WorkEnergy(0.0, 0.0, True)), EnergyMeter(100.0), EnergyMeter()
    for meters, energy_known, work_known in (
        ([known, known], True, True),
        ([known, by_time], True, False),
        ([unmetered, known], False, False),
    ):
        receipts, works = WorkReceipts([TABLE] * 2, [8] * 2, meters), []
        pool = Pool(2, config(), PlainTime())  # type: ignore[arg-type]
        fleet = FleetConfig((pool,), "least-work", faults=(Fault("replica", 0.0045, None, 0),))
        Fleet(fleet, lambda r, w=works, s=receipts: w.append(s.take(r.call.id)), receipts).run(lone((0.0, 20, 10)))  # type: ignore[misc]
        (work,) = works
        assert (work.energy_nj is not None, work.work_nj is not None) == (energy_known, work_known)


# A call alone


def setup(system=A100, **changes) -> Setup:
    return Setup(MODEL, system, host_gap_s=0.0, energy=CATALOG.energy, **changes)


def alone(chosen: Setup, prompt: int, output: int) -> Work:
    """What a call takes that has the fleet for itself."""
    receipts, found = work_receipts(chosen), []

    class Taken:
        def add(self, record: Record) -> None:
            found.append(receipts.take(record.call.id))

    summary = simulate(chosen, lone((0.0, prompt, output)), sink=Taken(), observer=receipts)
    assert found[0].energy_nj / 1e9 == pytest.approx(summary.energy_j)
    return found[0]


@pytest.mark.parametrize("tensor", [1, 4])
def test_a_call_alone_takes_what_the_planners_receipt_says(tensor: int) -> None:
    cut = Parallelism(tensor=tensor)
    where = Deployment("m", MODEL, A100, Precision(), cut)
    said = request_receipt(where, Asked(prompt=2000, cached=0, output=50, batch=1)).floor
    assert alone(setup(cut=cut), 2000, 50).energy_nj / 1e9 == pytest.approx(said.energy_j, rel=1e-6)


def test_what_its_flops_and_bytes_account_for_is_the_planners_estimate() -> None:
    where = Deployment("m", MODEL, A100, Precision(), Parallelism())
    steps = [prefill(spans(MODEL), 2000), *(decode(spans(MODEL), 1, 2000 + i) for i in range(1, 50))]
    each = work_energy(A100.chip, ("bf16",), CATALOG.energy)
    assert each is not None
    works = [where.work(step) for step in steps]
    expected = sum(float(each.byte_j * work.memory_bytes + each.flop_j * work.total("flops")) for work in works)
    work = alone(setup(), 2000, 50)
    assert work.work_nj / 1e9 == pytest.approx(expected, rel=1e-6)
    assert work.work_nj < work.energy_nj


# By what


def test_nothing_that_a_chip_can_do_takes_more_than_its_limit() -> None:
    for system in map(CATALOG.system, CATALOG.systems):
        chip = system.chip
        each = work_energy(chip, ("bf16",), CATALOG.energy) if chip.bf16_flops_per_s else None
        if each is None:
            assert chip.tdp_w is None or chip.hbm_type.startswith("SRAM") or not chip.bf16_flops_per_s
            continue
        drawn_w = each.flop_j * chip.bf16_flops_per_s + each.byte_j * chip.hbm_bytes_per_s
        assert drawn_w <= chip.tdp_w * (1 + 1e-12)
        assert each.byte_j / each.flop_j == pytest.approx(
            CATALOG.energy["hbm2" if chip.hbm_type.startswith("HBM") else "dram"].value
            / CATALOG.energy["fp16_multiply_add"].value
        ), "their ratio says more than their size"


def test_what_a_fit_measured_goes_before_estimates() -> None:
    measured = Coefficients(compute_j_per_flop=5e-13, memory_j_per_byte=4e-11)
    assert work_energy(A100.chip, ("bf16",), CATALOG.energy, measured) == WorkEnergy(5e-13, 4e-11, True)
    assert work_energy(A100.chip, ("bf16",), {}, Coefficients()) is None


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, "by FLOPs and bytes, as estimated for other silicon; the rest by time"),
        ({"energy": {}}, "by time"),
        ({"system": replace(A100, chip=replace(A100.chip, hbm_type="SRAM"))}, "by time"),
        ({"system": replace(A100, chip=replace(A100.chip, tdp_w=None))}, "unknown: no power published"),
        ({"feed_forward": FeedForwardSide(A100, 1)}, "by time"),
    ],
)
def test_the_rule_is_said(changes: dict[str, object], rule: str) -> None:
    chosen = replace(setup(), **changes)  # type: ignore[arg-type]
    assert energy_meter(chosen, ("fp8",)).rule == rule


def test_the_command_says_the_rule_and_its_rows_add_up(tmp_path) -> None:
    out, fleet = tmp_path / "calls.parquet", ("--pool", "system=hgx-a100", "--pool", "system=hgx-h100,tensor=2")
    asked = ["simulate", "--requests", "40", "--rate", "20", *fleet]
    found = json.loads(CliRunner().invoke(main, [*asked, "--out", str(out), "--json"]).output)
    table = pq.read_table(out).to_pydict()
    assert np.sum(table["energy_j"]) == pytest.approx(found["energy_j"], rel=1e-9)
    assert all(0 < work < energy for work, energy in zip(table["work_j"], table["energy_j"], strict=True))
    assert found["energy_of_a_call"] == "by FLOPs and bytes, as estimated for other silicon; the rest by time"
    assert "energy_of_a_call" not in json.loads(CliRunner().invoke(main, [*asked, "--json"]).output)
