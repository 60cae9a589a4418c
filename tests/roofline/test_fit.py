"""A pooled fit finds what made the data, and leaves what the data cannot tell at its prior."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headway.arithmetic.attends import spans
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import decode, prefill
from headway.arithmetic.work import step_work
from headway.catalog import CatalogError, load_catalog
from headway.roofline import calibration
from headway.roofline.coefficients import NAMES, PRIORS
from headway.roofline.fit import _columns, _normal, fit
from headway.roofline.pooled import Pooled, unfitted
from headway.roofline.serving import Served, joined, operations_s, served_s
from headway.roofline.terms import step_terms
from tests.arithmetic.models import catalog, model


def served(name: str, tensor: int, users: list[int], first: bool, system_name: str = "hgx-h100") -> Served:
    shape, system, cut = model(name), catalog().system(system_name), Parallelism(tensor=tensor)
    count, known = len(users), spans(model(name))
    steps = (decode(known, np.array(users), 1500), *[prefill(known, np.full(count, 1000))] * 2)
    return Served(
        *(step_terms(step_work(shape, step, cut=cut, domain=8), step, system, cut) for step in steps),
        prompts_each=np.ones(count),
        in_flight=np.array(users, np.float64),
        waiting=np.zeros(count),
        prompt_tokens=np.full(count, 1000.0),
        output_tokens=np.full(count, 1000.0),
        first=np.full(count, first),
        alone=np.zeros(count, bool),
        unmixed=np.zeros(count, bool),
        unseen_steps=np.zeros(count),
        waits_for_host=np.zeros(count, bool),
    )


def made_up(**scale: float) -> Pooled:
    """The prior, with some coefficients moved on the fit's scale."""
    truth = unfitted()
    for name, moved in scale.items():
        truth.shared[NAMES.index(name)] += moved
    return truth


def runs(names: tuple[str, ...]) -> Served:
    users = [1, 4, 16, 64, 256]
    return joined(
        [served(name, tensor, users, first) for name in names for tensor in (1, 4) for first in (False, True)]
    )


SURE = 1000.0
"""Weight of exact data: forty made-up rows then outweigh the priors, as thousands of measured ones do."""
TRUTH = {"bandwidth_efficiency": -0.6, "round_s": 0.7, "launch_s": 0.6, "host_sequence_s": 1.5, "request_s": 0.5}


def test_a_fit_finds_what_made_the_data() -> None:
    seen, unseen = runs(("llama-3.1-8b", "qwen3-30b-a3b")), runs(("qwen3-8b", "gpt-oss-20b"))
    truth = made_up(**TRUTH)
    found = fit(seen, [{}] * len(seen), served_s(seen, truth.resolved([{}] * len(seen))), np.full(len(seen), SURE))
    for group, most in ((seen, 0.04), (unseen, 0.08)):
        tags = [{}] * len(group)
        off = served_s(group, found.resolved(tags)) / served_s(group, truth.resolved(tags)) - 1
        assert np.median(np.abs(off)) < most
        before = served_s(group, unfitted().resolved(tags)) / served_s(group, truth.resolved(tags)) - 1
        assert np.median(np.abs(before)) > 2 * np.median(np.abs(off))


def test_a_fit_is_deterministic() -> None:
    group = runs(("llama-3.1-8b",))
    tags, seconds = [{"engine": "mine"}] * len(group), served_s(group, made_up(**TRUTH).resolved([{}] * len(group)))
    one, two = fit(group, tags, seconds), fit(group, tags, seconds)
    assert np.array_equal(one.shared, two.shared)
    assert one.differences.keys() == two.differences.keys()


def test_an_engine_that_differs_is_told_from_one_that_does_not() -> None:
    group = runs(("llama-3.1-8b", "qwen3-30b-a3b"))
    both = joined([group, group])
    tags = [{"engine": "quick"}] * len(group) + [{"engine": "slow"}] * len(group)
    seconds = served_s(both, unfitted().resolved(tags)) * np.repeat([1.0, 1.6], len(group))
    found = fit(both, tags, seconds, np.full(len(both), SURE))
    off = served_s(both, found.resolved(tags)) / seconds
    assert abs(np.median(off[: len(group)]) - 1) < 0.1
    assert abs(np.median(off[len(group) :]) - 1) < 0.1
    unseen = served_s(group, found.resolved([{"engine": "third"}] * len(group))) / served_s(
        group, unfitted().resolved([{}] * len(group))
    )
    assert 1.05 < np.median(unseen) < 1.6  # What both share, and nothing of either.


def test_a_level_that_was_not_seen_is_where_it_is_expected() -> None:
    """Of runs that may have drafted, some did, whether or not a fit saw any."""
    group = runs(("llama-3.1-8b",))
    tags = [{}] * len(group)
    found = fit(group, tags, served_s(group, unfitted().resolved(tags)))
    plain, drafted = (found.resolved([tag])["tokens_per_step"][0] for tag in ({}, {"drafts": "unstated"}))
    assert drafted / plain == pytest.approx(math.exp(0.2), rel=0.01)


def test_an_engine_that_launches_one_by_one_is_bound_by_its_host() -> None:
    """The step takes as long on 8 chips as on 1, which no slope leads to from a device that hides its host."""
    group = runs(("llama-3.1-8b", "qwen3-8b"))
    group = group.take(np.flatnonzero(~group.first & (group.in_flight < 32)))
    tags = [{"launching": "one by one"}] * len(group)
    found = fit(group, tags, np.full(len(group), 0.03), np.full(len(group), SURE)).resolved(tags)
    assert np.allclose(served_s(group, found), 0.03, rtol=0.2)
    assert 0.02 < found["host_s"][0] < 0.04


@pytest.mark.parametrize("variety", [0.3, 0.9])
def test_how_alike_tokens_choose_experts_is_found(variety: float) -> None:
    group = runs(("qwen3-30b-a3b", "gpt-oss-20b"))
    group = group.take(np.flatnonzero(~group.first))
    tags = [{}] * len(group)
    truth = made_up(expert_variety=math.log(variety / (1 - variety)) - math.log(0.6 / 0.4))
    found = fit(group, tags, served_s(group, truth.resolved(tags)), np.full(len(group), SURE)).resolved(tags)
    assert found["expert_variety"][0] == pytest.approx(variety, abs=0.1)


def test_kinds_of_rows_make_the_equations_that_rows_make() -> None:
    random = np.random.default_rng(0)
    tags = [{"engine": random.choice(["a", "b"]), "chip": random.choice(["x", "y"])} for _ in range(40)]
    columns, slopes, residual = _columns(tags), random.normal(size=(40, len(NAMES))), random.normal(size=40)
    jacobian = slopes[:, columns.name] * columns.member[columns.kind]
    normal, gradient = _normal(columns, slopes, residual)
    assert len(columns.rows) <= 4
    assert normal == pytest.approx(jacobian.T @ jacobian)
    assert gradient == pytest.approx(jacobian.T @ residual)


def test_a_step_carries_the_prompts_that_it_takes_in() -> None:
    """Few prompts ride in full; of many, a step takes a chunk's share of one, however many wait."""
    group = served("llama-3.1-8b", 1, [1, 4, 100_000, 200_000], first=False)
    values = made_up().resolved([{}] * len(group))
    values["mixing"], values["chunk_tokens"] = np.ones(4), np.full(4, 500.0)
    mixed_s = served_s(group, values) - served_s(replace(group, unmixed=np.ones(4, bool)), values)
    prompt_s = operations_s(group.prompts, values)
    assert mixed_s[0] == 0
    assert mixed_s[1] == pytest.approx(3 / 1000 * prompt_s[1], rel=1e-3)
    assert mixed_s[2:] == pytest.approx(0.5 * prompt_s[2:], rel=1e-3)


def test_a_first_token_waits_for_the_steps_planned_ahead() -> None:
    first, later = (served("llama-3.1-8b", 1, [1], is_first) for is_first in (True, False))
    one, three = (unfitted().resolved([{}]) | {"steps_before": np.array([steps])} for steps in (1.0, 3.0))
    step_s = served_s(later, one) * one["tokens_per_step"]
    assert served_s(first, three) - served_s(first, one) == pytest.approx(2 * step_s)


def test_what_the_data_cannot_tell_stays_at_its_prior() -> None:
    group = runs(("llama-3.1-8b",))
    found = fit(group, [{}] * len(group), served_s(group, unfitted().resolved([{}] * len(group))) * 1.5)
    for name in ("expert_variety", "expert_layer_s", "expert_round_s", "fp4_efficiency", "imbalance"):
        assert found.shared[NAMES.index(name)] == pytest.approx(unfitted().shared[NAMES.index(name)])


def test_one_wild_row_does_not_carry_the_fit() -> None:
    group = runs(("llama-3.1-8b", "qwen3-8b"))
    tags = [{}] * len(group)
    seconds = served_s(group, unfitted().resolved(tags))
    spoilt = seconds.copy()
    spoilt[3] *= 50
    off = served_s(group, fit(group, tags, spoilt, np.full(len(group), SURE)).resolved(tags)) / seconds - 1
    assert np.median(np.abs(off)) < 0.05


def test_a_fit_needs_data() -> None:
    empty = runs(("llama-3.1-8b",)).take(np.array([], np.int64))
    with pytest.raises(ValueError, match="needs measurements"):
        fit(empty, [], np.array([]))


@pytest.mark.parametrize("name", PRIORS)
def test_resolved_coefficients_are_what_their_names_say(name: str) -> None:
    value = unfitted().resolved([{}])[name][0]
    assert value == pytest.approx(PRIORS[name].start)
    assert 0 < value < 1 or not PRIORS[name].share


def test_fits_in_the_catalog_state_their_errors_and_source() -> None:
    for name, figures in catalog().calibrations.items():
        fitted = calibration(figures)
        assert fitted.points > 0, name
        assert 0 < fitted.median_error < 1, name
        assert fitted.held_out_median_error is None or fitted.held_out_median_error > 0, name
        assert fitted.source, name
    shared = calibration(catalog().calibrations["any/vllm"])
    assert shared.held_out_median_error is not None
    assert shared.interval_ratio is not None
    assert shared.interval_ratio > 1


def test_a_fit_without_its_error_is_refused(tmp_path: Path) -> None:
    row = "mine/own,host_s,1,ms,measured,my runs,2026-11,"
    (tmp_path / "calibration.csv").write_text(f"item,figure,value,unit,status,source,date,note\n{row}\n")
    with pytest.raises(CatalogError, match="calibration mine/own: median_error is missing"):
        load_catalog([tmp_path])


def test_a_fit_of_ones_own_keeps_nothing_of_the_one_it_replaces(tmp_path: Path) -> None:
    """Not its error held out, nor its interval: they were another fit's."""
    figures = [("median_error", "0.1", "fraction"), ("mean_error", "0.2", "fraction"), ("points", "2", "rows")]
    rows = [f"H100-SXM/vllm,{name},{value},{unit},measured,us,2026-11," for name, value, unit in figures]
    for count in (3, 2):
        text = "\n".join(["item,figure,value,unit,status,source,date,note", *rows[:count]])
        (tmp_path / "calibration.csv").write_text(f"{text}\n")
        fitted = load_catalog([tmp_path]).calibrations["h100-sxm/vllm"]
        assert fitted["mean_error"].value == 0.2
        assert ("held_out_median_error" in fitted) is (count == 2)
