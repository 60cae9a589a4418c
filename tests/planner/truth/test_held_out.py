"""What was held out does not touch the fit; tables, intervals and regret say what they claim."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from headway.planner.truth.evidence import Evidence, even_weights, evidence, thinned
from headway.planner.truth.held_out import Predictions, leave_one_out, quantile
from headway.planner.truth.tables import error_tables, regret
from tests.arithmetic.models import catalog
from tests.planner.truth.test_readers import SAMPLE, read_data


@cache
def sample() -> Evidence:
    return evidence([read_data(SAMPLE)], catalog())


def changed(e: Evidence, rows: np.ndarray[tuple[int], np.dtype[np.bool_]], factor: float) -> Evidence:
    return replace(e, measured_s=np.where(rows, e.measured_s * factor, e.measured_s))


@pytest.mark.parametrize("held", ["qwen3-32b", "deepseek-v3"])
def test_held_out_measurements_never_touch_the_coefficients(held: str) -> None:
    e = sample()
    rows = e.where(lambda m: m.model) == held
    assert rows.any()
    one, two = e.fit(~rows), changed(e, rows, 7.0).fit(~rows)
    assert np.array_equal(one.shared, two.shared)
    assert all(np.array_equal(one.differences[key], two.differences[key]) for key in one.differences)
    seen = changed(e, ~rows, 2.0).fit(~rows)
    assert not np.array_equal(one.shared, seen.shared)


def test_each_label_is_predicted_by_a_fit_to_the_others() -> None:
    e = sample()
    labels = e.where(lambda m: m.system)
    before = leave_one_out(e, labels)
    assert np.isfinite(before).all()
    h100 = labels == "hgx-h100"
    after = leave_one_out(changed(e, h100, 3.0), labels)
    assert np.allclose(before[h100], after[h100], rtol=1e-12)
    assert not np.allclose(before[~h100], after[~h100], rtol=1e-3)


def test_a_chip_that_was_not_seen_is_predicted_from_its_datasheet() -> None:
    e = sample()
    pooled = e.fit(e.where(lambda m: m.system) != "hgx-h200")
    rows = np.flatnonzero(e.where(lambda m: m.system) == "hgx-h200")
    here, there = pooled.resolved([e.tags[i] for i in rows[:1]]), pooled.resolved([{**e.tags[rows[0]], "chip": "new"}])
    assert all(np.array_equal(here[name], there[name]) for name in here)


def test_thinning_and_weights() -> None:
    e = sample()
    rows = thinned(e.found * 100, np.arange(100 * len(e)))
    assert len(rows) == len(set(rows.tolist())) < 100 * len(e)
    weights = even_weights(e.found, np.arange(len(e)))
    assert weights.mean() == pytest.approx(1)
    assert weights.max() > weights.min() > 0


def test_a_quantile_counts_labels_alike_and_allows_for_what_is_to_come() -> None:
    many, few = np.linspace(0, 0.1, 900), np.linspace(0.5, 1.0, 100)
    off, labels = np.concatenate([many, few]), ["often"] * 900 + ["seldom"] * 100
    assert 0.89 < quantile(off, labels) < 0.93
    assert quantile(off[:900], labels[:900]) == pytest.approx(0.09, abs=0.001)
    assert quantile(np.array([0.1, 0.2, 0.3]), "abc") == 0.3


def test_tables_report_errors_bias_and_coverage() -> None:
    e = sample()
    tables = error_tables(e, Predictions(e.measured_s * 1.2, np.full(len(e), 1.25)))
    assert {(t.metric, t.by) for t in tables} == {(m, b) for m in ("tpot", "ttft") for b in ("model", "chip", "engine")}
    for table in tables:
        assert table.macro_median_error == pytest.approx(0.2)
        assert table.coverage == 1.0
        assert all(row.median_bias == pytest.approx(0.2) for row in table.rows)
    narrow = error_tables(e, Predictions(e.measured_s * 1.2, np.full(len(e), 1.1)))
    assert all(table.coverage == 0.0 for table in narrow)
    unasked = np.where(e.where(lambda m: m.metric) == "tpot", e.measured_s, np.nan)
    assert {table.metric for table in error_tables(e, Predictions(unasked, np.full(len(e), 2.0)))} == {"tpot"}


def test_whoever_knows_the_truth_regrets_nothing() -> None:
    e = sample()
    knowing = regret(e, Predictions(e.measured_s, np.full(len(e), 2.0)))
    assert knowing is not None
    assert (knowing.median, knowing.mean, knowing.missed, knowing.within_tenth) == (0, 0, 0, 1)
    reversed_s = 1 / e.measured_s
    misled = regret(e, Predictions(reversed_s, np.full(len(e), 2.0)))
    assert misled is not None
    assert misled.mean > 0.3
    assert regret(e, Predictions(np.full(len(e), np.nan), np.full(len(e), 2.0))) is None


def test_a_file_with_nothing_to_price_is_refused(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    path = tmp_path / "points.csv"
    path.write_text("\n".join([lines[0], next(line for line in lines if line.startswith("MLPerf"))]) + "\n")
    with pytest.raises(ValueError, match="no measurement of a known model"):
        evidence([read_data(path)], catalog())
