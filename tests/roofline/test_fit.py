"""A fit finds what made the data, and ships with its error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headway.arithmetic.attends import spans
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode
from headway.arithmetic.work import step_work
from headway.catalog import CatalogError, load_catalog
from headway.roofline import Coefficients, calibrated_cost, calibration
from headway.roofline.fit import MeasuredSteps, fit, mean_error, median_error
from tests.arithmetic.models import catalog, model

TRUTH = Coefficients(0.5, 64, 0.8, 0.7, 3e-6, 3e-5, 5e-5, 5e-4, 1e-5)


def measured(names: Sequence[str], truth: Coefficients) -> list[MeasuredSteps]:
    system, found = catalog().system("hgx-h100"), []
    for name in names:
        for tensor in (1, 4):
            cut = Parallelism(tensor=tensor)
            shape = decode(spans(model(name)), np.array([1, 8, 64, 512]), np.array([500, 2000, 8000, 1000]))
            work = step_work(model(name), shape, cut=cut, domain=8)
            step_s = calibrated_cost(work, shape, system, truth, cut).step_s
            found.append(MeasuredSteps(work, shape, system, cut, step_s))
    return found


def test_a_fit_finds_what_made_the_data() -> None:
    steps = measured(["llama-3.1-8b", "qwen3-30b-a3b"], TRUTH)
    fitted = fit(steps)
    assert median_error(steps, fitted) < 0.02
    assert mean_error(steps, fitted) < 0.03
    assert fitted == fit(steps)
    unseen = measured(["qwen3-8b", "gpt-oss-20b"], TRUTH)
    assert median_error(unseen, fitted) < 0.05


def test_a_fit_needs_data() -> None:
    with pytest.raises(ValueError, match="needs measured steps"):
        fit([])


def test_fits_in_the_catalog_state_their_error_and_source() -> None:
    h100 = calibration(catalog().calibration("h100-sxm", "vllm"))
    assert h100.median_error < 0.1
    assert h100.points == 79
    assert "ML.ENERGY" in h100.source
    assert 0.5 < h100.coefficients.bandwidth_efficiency < 1
    assert calibration(catalog().calibration("b200-sxm", "vllm")).median_error > h100.median_error


def test_a_fit_without_its_error_is_refused(tmp_path: Path) -> None:
    row = "mine/own,host_s,1,ms,measured,my runs,2026-11,"
    (tmp_path / "calibration.csv").write_text(f"item,figure,value,unit,status,source,date,note\n{row}\n")
    with pytest.raises(CatalogError, match="calibration mine/own: median_error is missing"):
        load_catalog([tmp_path])
