"""The arithmetic of the serving benchmark, on made-up answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.serving.jobs import JOBS, Job
from benchmarks.serving.measurement import Answer, Measurement, measure, summarise
from hypothesis import given
from hypothesis import strategies as st

JOB = Job("T", requests=3, concurrency=1, shared_tokens=4, own_tokens=6, output_tokens=5)
RIGHT = Answer(sent_s=100.0, first_s=100.5, last_s=102.5, prompt_tokens=10, output_tokens=5)


def later(answer: Answer, by_s: float) -> Answer:
    return replace(answer, sent_s=answer.sent_s + by_s, first_s=answer.first_s + by_s, last_s=answer.last_s + by_s)


def measured(engine: str, run: int, rate: float | None) -> Measurement:
    return Measurement(engine, "T", run, 1, 0, 0, rate, 0.1, 0.2, None, None, ())


def test_rates_and_times() -> None:
    m = measure("x", JOB, 0, [RIGHT, later(RIGHT, 2.5)])
    assert m.output_tokens_per_s == pytest.approx(10 / 5.0)
    assert m.ttft_s == pytest.approx(0.5)
    assert m.tpot_s == pytest.approx(2.0 / 4)
    assert (m.right, m.wrong, m.failed, m.errors) == (2, 0, 0, ())


@pytest.mark.parametrize("change", [{"prompt_tokens": 9}, {"output_tokens": 4}, {"output_tokens": 6}])
def test_a_wrong_number_of_tokens_is_counted_and_its_tokens_are_not(change: dict[str, int]) -> None:
    m = measure("x", JOB, 0, [RIGHT, replace(later(RIGHT, 7.5), **change)])
    assert (m.right, m.wrong, m.failed) == (1, 1, 0)
    assert m.output_tokens_per_s == pytest.approx(5 / 10.0)
    assert m.ttft_s == pytest.approx(0.5)
    assert len(m.errors) == 1


def test_failures_have_no_part_in_the_figures() -> None:
    m = measure("x", JOB, 0, [RIGHT, Answer(sent_s=0.0, error="gone"), Answer(sent_s=0.0, error="gone")])
    assert (m.right, m.wrong, m.failed, m.errors) == (1, 0, 2, ("gone",))
    assert m.output_tokens_per_s == pytest.approx(5 / 2.5)


def test_nothing_right_gives_no_figure() -> None:
    m = measure("x", JOB, 0, [Answer(sent_s=0.0, error="gone")])
    assert (m.output_tokens_per_s, m.ttft_s, m.tpot_s) == (None, None, None)


def test_ratios_are_taken_within_a_run() -> None:
    runs = [measured("headway", run, rate) for run, rate in enumerate((100.0, 10.0, 40.0))]
    runs += [measured("x", run, rate) for run, rate in enumerate((200.0, 20.0, 4.0))]
    summary = summarise(runs, "x", "T")
    assert summary is not None
    assert summary.ratio_to_headway == pytest.approx(2.0)
    assert summary.output_tokens_per_s == pytest.approx(20.0)


def test_runs_without_a_pair_have_no_ratio() -> None:
    summary = summarise([measured("headway", 0, 50.0), measured("x", 1, 10.0)], "x", "T")
    assert summary is not None
    assert summary.ratio_to_headway is None
    assert summarise([], "x", "T") is None


@given(st.lists(st.one_of(st.none(), st.floats(1, 1000)), min_size=1, max_size=5))
def test_headway_is_its_own_measure(rates: list[float | None]) -> None:
    summary = summarise([measured("headway", run, rate) for run, rate in enumerate(rates)], "headway", "T")
    assert summary is not None
    known = any(rate is not None for rate in rates)
    assert summary.ratio_to_headway == (pytest.approx(1.0) if known else None)
    assert summary.runs == len(rates)


@pytest.mark.parametrize("job", JOBS.values(), ids=list(JOBS))
def test_prompts_share_what_the_job_says_and_nothing_else(job: Job) -> None:
    prompts = job.prompts(seed=0, vocab=49152)
    assert len(prompts) == job.requests
    assert {len(prompt) for prompt in prompts} == {job.prompt_tokens}
    assert len({tuple(prompt[: job.shared_tokens]) for prompt in prompts}) == 1
    assert len({tuple(prompt[job.shared_tokens :][:16]) for prompt in prompts}) == job.requests
    assert all(0 <= token < 49152 for prompt in prompts for token in prompt)


def test_no_prompt_comes_back_in_another_run_or_job() -> None:
    first, second = JOBS["A8"].prompts(0, 49152), JOBS["A8"].prompts(1, 49152)
    other = JOBS["A32"].prompts(0, 49152)
    beginnings = [tuple(prompt[:16]) for prompt in (*first, *second, *other)]
    assert len(set(beginnings)) == len(beginnings)
    assert JOBS["A8"].prompts(0, 49152) == first
