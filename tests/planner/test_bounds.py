"""What holds a step back: one bound of six, and power only where there is something to judge it by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.plan import plan
from headway.planner.bounds import bounds
from headway.planner.deployment import Deployment
from headway.roofline import LIMITS
from tests.planner.deployments import deployed


def measured(j_per_flop: float, j_per_byte: float, idle_w: float = 100.0) -> Deployment:
    """With joules that somebody measured."""
    where = deployed(fitted=True)
    assert where.fitted is not None
    c = replace(where.fitted.coefficients, compute_j_per_flop=j_per_flop, memory_j_per_byte=j_per_byte, idle_w=idle_w)
    return replace(where, fitted=replace(where.fitted, coefficients=c))


@given(st.sampled_from(["llama-3.1-70b", "smollm2-360m"]), st.integers(1, 4096), st.integers(1, 100_000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_exactly_one_bound_holds(name: str, batch: int, context: int, fitted: bool) -> None:
    where = deployed(name, fitted=fitted, tensor=1 if name.startswith("smol") else 8)
    found = bounds(where, batch, context)
    assert tuple(b.bound for b in found) == LIMITS
    assert sum(b.holds for b in found) == 1
    held = next(b for b in found if b.holds)
    assert all(0 <= (b.share or 0) <= 1 + 1e-9 for b in found[:4])
    assert (held.bound == "memory_capacity") == (not where.memory(context, batch).fits)
    if held.bound != "memory_capacity":
        assert held.share == max(b.share or 0 for b in found[:4])


@given(st.floats(1e-13, 1e-11), st.floats(1e-12, 1e-9))
@settings(max_examples=30, deadline=None)
def test_power_holds_above_the_cap(j_per_flop: float, j_per_byte: float) -> None:
    where = measured(j_per_flop, j_per_byte)
    shape = where.decode_shape(32, 4096)
    cost = where.cost(shape)
    watts = 100 + float((cost.flops * j_per_flop + cost.memory_bytes * j_per_byte) / cost.step_s)
    power = bounds(where, 32, 4096)[-1]
    assert power.share == pytest.approx(watts / 700)
    assert power.holds == (watts > 700)
    assert "of the 700 W cap" in power.says


def test_power_is_not_judged_without_measured_joules() -> None:
    for where in (deployed(), deployed(fitted=True)):
        power = bounds(where, 32, 4096)[-1]
        assert (power.share, power.holds) == (None, False)
        assert power.says == "not judged: the catalog has no measured joules a FLOP and byte of h100-sxm"
    chip = replace(measured(1e-12, 1e-10).system.chip, tdp_w=None)
    uncapped = replace(measured(1e-12, 1e-10), system=replace(deployed().system, chip=chip))
    assert bounds(uncapped, 32, 4096)[-1].says == "not judged: no power cap of h100-sxm is published"


def test_joules_of_ones_own_are_judged(tmp_path: Path) -> None:
    header = "item,figure,value,unit,status,source,date,note"
    rows = [
        f"h100-sxm/vllm,{name},{value},{unit},measured,my meter,2026-11,"
        for name, value, unit in (("memory_j_per_byte", 200, "pJ/B"), ("idle_w", 100, "W"))
    ]
    (tmp_path / "calibration.csv").write_text("\n".join([header, *rows]))
    asked = ["limits", "llama-3.1-8b", "--batch", "64", "--catalog", str(tmp_path)]
    result = CliRunner().invoke(plan, asked)
    assert result.exit_code == 0, result.output
    assert "of the 700 W cap" in result.output
    assert "not judged" not in result.output
    best = CliRunner().invoke(plan, ["best", "llama-3.1-8b", "--slo", "50", "--catalog", str(tmp_path)]).output
    assert "`plan limits` judges it by the joules of the calibration" in best
    assert "power is never named" not in best
