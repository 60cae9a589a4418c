"""Each figure equals its closed form: the server's delays are known and the clock is exact."""

from __future__ import annotations

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.bench.metrics import METRICS, RATES, distributions, keeps, rates
from headway.bench.quantiles import distribution, quantile_of
from headway.bench.record import Record
from headway.bench.slo import Slo
from headway.bench.summary import objections, summarise
from headway.cli.bench_slo import Limits
from headway.workload.call import Call, Workload
from tests.bench.asking import ask, drive
from tests.bench.scripted import END, HEAD, Server, answer, event, http_chunk, text, usage

DELAYS = st.lists(st.floats(0.001, 5.0), min_size=0, max_size=12)


@given(st.floats(0.001, 5.0), DELAYS)
def test_figures_of_one_answer(ttft_s: float, gaps_s: list[float]) -> None:
    found = distributions([ask(answer(ttft_s, gaps_s), tokens=len(gaps_s) + 1)])
    assert found["ttft_s"].mean == pytest.approx(ttft_s)
    assert found["e2e_s"].mean == pytest.approx(ttft_s + sum(gaps_s))
    if not gaps_s:
        assert "tpot_s" not in found
        assert "itl_s" not in found
        return
    tpot_s = sum(gaps_s) / len(gaps_s)
    assert found["tpot_s"].mean == pytest.approx(tpot_s)
    assert found["interactivity_tokens_per_s"].mean == pytest.approx(1 / tpot_s)
    assert found["longest_gap_s"].mean == pytest.approx(max(gaps_s))
    assert found["itl_s"].count == len(gaps_s)
    assert found["itl_s"].at(0.5).value == pytest.approx(sorted(gaps_s)[(len(gaps_s) - 1) // 2])


def test_tpot_ends_with_the_finish_reason_and_itl_is_between_arrivals() -> None:
    """Three tokens in the first chunk, two in the second, an end token without text a second later."""
    steps = [HEAD, 2.0, http_chunk(event(text(" a b c"))), 0.5, http_chunk(event(text(" d e"))), 1.0]
    steps += [http_chunk(event(text("", "stop")) + event(usage(10, 6)) + event(b"[DONE]")), END]
    found = distributions([ask(steps, tokens=9)])
    assert found["tpot_s"].mean == pytest.approx(1.5 / 5)
    assert (found["itl_s"].count, found["itl_s"].mean) == (1, pytest.approx(0.5))
    assert found["e2e_s"].mean == pytest.approx(3.5)


def test_rates_of_a_closed_loop() -> None:
    """Two clients, five requests each of 1 + 3 x 0.5 s one after the other: 12.5 s, 40 tokens."""
    calls = [(Call(str(i), 20, 4),) for i in range(10)]
    server = Server(lambda _: answer(1.0, [0.5] * 3, prompt=20))
    load = drive(Workload("w", calls, concurrency=2), server)
    slo = Slo(ttft_s=1.0, tpot_s=0.5)
    assert rates(load.records, slo) == pytest.approx(
        {
            "requests_per_s": 10 / 12.5,
            "output_tokens_per_s": 40 / 12.5,
            "total_tokens_per_s": 240 / 12.5,
            "goodput_requests_per_s": 10 / 12.5,
            "goodput_tokens_per_s": 40 / 12.5,
            "slo_share": 1.0,
            "tokens_per_arrival": 1.0,
        }
    )
    assert server.most_open == 2


def test_goodput_counts_what_kept_every_limit_and_failures_keep_none() -> None:
    scripts = [answer(1.0, [0.1]), answer(3.0, [0.1]), answer(1.0, [0.9]), [HEAD, END]]
    calls = [(Call(str(i), 10, 2, arrival_s=10.0 * i),) for i in range(4)]
    load = drive(Workload("w", calls), Server(scripts))
    figures = rates(load.records, Slo(ttft_s=2.0, tpot_s=0.5))
    assert figures["slo_share"] == pytest.approx(1 / 4)
    assert figures["goodput_requests_per_s"] == pytest.approx(1 / 30.0)
    assert keeps(load.records[0], Slo(ttft_s=1.0, gap_s=0.11, e2e_s=1.2))


def test_cached_share() -> None:
    told = usage(10, 1, prompt_tokens_details={"cached_tokens": 4})
    cached = ask([HEAD, http_chunk(event(text(" a", "length")) + event(told) + event(b"[DONE]")), END], tokens=1)
    assert rates([cached, ask(answer(1.0, []), tokens=1)], None)["cached_share"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("told", "text_tokens", "counted", "by", "disagrees"),
    [
        (4, 4, 4, "usage", False),
        (4, 5, 4, "usage", False),
        (4, None, 4, "usage", False),
        (400, 4, 4, "text", True),
        (1, 40, 40, "text", True),
        (400, None, 4, "chunks", True),
        (0, None, 4, "chunks", True),
    ],
)
def test_usage_that_lies_is_not_believed(
    told: int, text_tokens: int | None, counted: int, by: str, disagrees: bool
) -> None:
    record = ask(answer(1.0, [0.1] * 3, told=told), tokens=40, count=text_tokens)
    assert (record.output_tokens, record.counted_by, record.usage_disagrees) == (counted, by, disagrees)


def test_figures_are_all_defined() -> None:
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)
    assert all(metric.definition and metric.better in ("lower", "higher") for metric in METRICS.values())
    assert {metric.key for metric in RATES} <= METRICS.keys()


def record_at(scheduled_s: float, sent_s: float) -> Record:
    return Record(
        id="0",
        session=None,
        turn=0,
        outcome="ok",
        asked_input_tokens=1,
        asked_output_tokens=1,
        scheduled_s=scheduled_s,
        sent_s=sent_s,
        arrivals_s=[1.0],
        end_s=1.0,
        closed_s=1.0,
        output_tokens=1,
    )


def test_a_late_load_generator_has_no_result() -> None:
    on_time = [record_at(i, i + 0.001) for i in range(100)]
    assert objections(summarise(on_time, [0.001] * 50, None), 0.025) == []
    late = summarise([*on_time, record_at(100, 100.2), record_at(101, 101.2)], [0.001] * 50, None)
    assert ["requests went out 200.0 ms late" in line for line in objections(late, 0.025)] == [True]
    stalled = summarise(on_time, [0.5] * 50, None)
    assert ["woke up 500.0 ms late" in line for line in objections(stalled, 0.025)] == [True]
    assert objections(summarise([], [], None), 0.025) == ["no request was sent"]


def test_an_slo_is_read_and_refused() -> None:
    slo = Limits().convert("ttft=2, tpot<=50ms,e2e=1min", None, None)
    assert slo == Slo(ttft_s=2.0, tpot_s=0.05, e2e_s=60.0)
    assert Limits().convert(slo.said(), None, None) == slo
    for bad in ("", "ttft", "ttft=", "speed=2s", "ttft=0s", "ttft=1s,ttft=2s", "ttft=-1s", "ttft=nans", "ttft=nan"):
        with pytest.raises(click.BadParameter):
            Limits().convert(bad, None, None)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_a_quantile_was_seen_and_covers_its_share(samples: list[float], level: float) -> None:
    ordered = np.sort(np.asarray(samples))
    value = quantile_of(ordered, level)
    assert value in samples
    assert np.mean(ordered <= value) >= level - 1e-9
    found = distribution(np.asarray(samples))
    assert found is not None
    quantile = found.at(level)
    assert quantile.low is None or quantile.low <= quantile.value
    assert quantile.high is None or quantile.high >= quantile.value


def covered(clustered: bool) -> float:
    """How often the interval of the median holds the true one: gaps of a request differ less than requests do."""
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        level = rng.normal(0, 1, 40).repeat(25) + rng.normal(0, 0.2, 1000)
        sizes = np.full(40, 25) if clustered else None
        median = distribution(level, sizes).at(0.5)  # type: ignore[union-attr]
        hits += (median.low or -9.0) <= 0 <= (median.high or 9.0)
    return hits / 400


def test_intervals_hold_what_they_promise_for_clustered_samples() -> None:
    assert covered(clustered=True) == pytest.approx(0.95, abs=0.04)
    assert covered(clustered=False) < 0.6, "the clusters matter"
