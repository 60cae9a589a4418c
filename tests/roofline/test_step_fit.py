"""The fit of measured steps: it finds a machine of its own form, and says how far off it is on what it has not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import precision
from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.step_shape import StepShape, decode, prefill
from headway.arithmetic.work import step_work
from headway.catalog.machine import machine_fit, machine_system
from headway.roofline import Coefficients, calibrated_cost, coefficients
from headway.roofline.step_fit import Points, Probed, StepFit, fit_steps, non_negative, stacked
from tests.machines import FIT, machine

MACHINE = machine()
SYSTEM = machine_system("m", MACHINE)
MODEL = shape_from_config(MACHINE.config)
FP32 = precision("fp32", "fp32")
PROBED = Probed(flops_per_s=2e11, bytes_per_s=0.8 * 2e10)
WHOLE = st.integers(-4, 9).map(float)
TRUE = replace(coefficients(machine_fit(MACHINE)), expert_compute_efficiency=0.5, expert_bandwidth_efficiency=0.8)


def shapes() -> list[StepShape]:
    each = spans(MODEL)
    decodes = [decode(each, batch, context) for batch in (1, 3, 10, 40) for context in (20, 300, 2000)]
    prompts = [prefill(each, tokens, cached) for tokens in (12, 100, 400) for cached in (0, 500)]
    return [*decodes, *prompts, *(d + p for d, p in zip(decodes, prompts, strict=False))]


def measured(noise: float = 0.0) -> Points:
    """What the machine of the file would take."""
    shape = stacked(shapes())
    cost = calibrated_cost(step_work(MODEL, shape, FP32), shape, SYSTEM, TRUE)
    gap_s = TRUE.host_s + 0.0 * cost.step_s
    factor = np.random.default_rng(0).lognormal(0, noise, len(gap_s))
    return Points(shape, (cost.step_s - gap_s) * factor, gap_s, np.arange(len(gap_s)))


def predicted(fit: StepFit, shape: StepShape) -> np.ndarray:
    peaks = replace(SYSTEM.chip, hbm_bytes_per_s=fit.bytes_per_s, bf16_flops_per_s=fit.flops_per_s)
    return calibrated_cost(
        step_work(MODEL, shape, FP32), shape, replace(SYSTEM, chip=peaks), Coefficients(**fit.coefficients)
    ).step_s


def test_it_finds_the_machine() -> None:
    """Peaks are the probe's where that is the fastest, so efficiencies are of these."""
    points = measured()
    fit = fit_steps(points, MODEL, FP32, PROBED)
    same = {"compute_efficiency": 0.5, "expert_compute_efficiency": 0.5, "attention_compute_efficiency": 0.2}
    other = {"bandwidth_efficiency": 1.0, "expert_bandwidth_efficiency": 1.0, "attention_bandwidth_efficiency": 0.5}
    few = {"layer_1_s": FIT["layer_s"], "layer_3_s": FIT["layer_s"]}
    assert fit.coefficients == pytest.approx(FIT | same | other | few, rel=1e-3)
    assert (fit.flops_per_s, fit.bytes_per_s) == (pytest.approx(2e11), pytest.approx(2e10 * 0.8))
    assert max(fit.median_error, fit.held_out_median_error, fit.held_out_mean_error) < 1e-3
    np.testing.assert_allclose(predicted(fit, points.shape), points.device_s + points.gap_s, rtol=1e-3)


def test_kernels_for_few_rows_have_their_moods() -> None:
    """One row takes longer than the terms have it, three rows less; in between they are told by the logarithm."""
    points = measured()
    moody = points.device_s + np.select([points.shape.tokens == 1, points.shape.tokens == 3], [9e-3, -2e-3], 0.0)
    fit = fit_steps(replace(points, device_s=moody), MODEL, FP32, PROBED)
    few = points.shape.tokens <= 3
    np.testing.assert_allclose(predicted(fit, points.shape)[few], (moody + points.gap_s)[few], rtol=0.03)
    layers = [fit.coefficients[name] for name in ("layer_3_s", "layer_s", "layer_1_s")]
    assert layers == sorted(layers)
    one, two, three = (float(predicted(fit, decode(spans(MODEL), n, 20))) for n in (1, 2, 3))
    assert three < two < one


def test_noise_shows_in_the_errors_and_the_fit_stays_near() -> None:
    fit, quiet = fit_steps(measured(0.1), MODEL, FP32, PROBED), measured()
    assert 0.02 < fit.held_out_median_error < 0.2
    assert fit.held_out_mean_error >= fit.median_error / 2
    np.testing.assert_allclose(predicted(fit, quiet.shape), quiet.device_s + quiet.gap_s, rtol=0.25)


def test_disturbance_makes_every_step_longer() -> None:
    points = measured()
    once, twice = (predicted(fit_steps(points, MODEL, FP32, PROBED, by), points.shape) for by in (1.0, 2.0))
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-9)


def test_a_probe_far_off_does_not_outweigh_the_steps() -> None:
    points = measured()
    fit = fit_steps(points, MODEL, FP32, Probed(2e11, 0.5e10))
    assert fit.held_out_median_error < 0.05


def test_what_a_scenario_alone_shows_is_not_in_sample_when_it_is_held_out() -> None:
    """The only long contexts are one scenario's: without it, nothing tells how slow the cache is."""
    each = spans(MODEL)
    shape = stacked([*(decode(each, batch, 2) for batch in range(1, 9)), decode(each, 8, 8000)])
    cost = calibrated_cost(step_work(MODEL, shape, FP32), shape, SYSTEM, TRUE)
    points = Points(shape, cost.step_s, np.full(9, 1e-6), np.arange(9))
    fit = fit_steps(points, MODEL, FP32, PROBED)
    assert fit.held_out_mean_error > 5 * fit.median_error


def test_too_little_is_refused() -> None:
    points = measured()
    with pytest.raises(ValueError, match="too few"):
        fit_steps(replace(points, group=points.group % 5), MODEL, FP32, PROBED)


@given(arrays(np.float64, (9, 4), elements=WHOLE), arrays(np.float64, 9, elements=WHOLE))
def test_no_other_non_negative_choice_is_better(columns: np.ndarray, target: np.ndarray) -> None:
    """The conditions of Karush, Kuhn and Tucker: where a coefficient is above 0 the slope is 0, elsewhere it rises."""
    found = non_negative(columns, target)
    assert (found >= 0).all()
    error = columns @ found - target
    tolerance = 1e-6 * (1 + np.abs(columns).sum()) * (1 + np.abs(target).sum())
    best = float(error @ error)
    for j in range(columns.shape[1]):
        for step in (1e-3, -1e-3):
            nudged = found.copy()
            nudged[j] = max(0.0, nudged[j] + step)
            other = columns @ nudged - target
            assert best <= float(other @ other) + tolerance
