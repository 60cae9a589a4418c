"""What is counted, under which names, and that it stays cheap."""

from __future__ import annotations

import pytest

from headway.server.engine import EngineFailed
from headway.server.metrics import Metrics
from tests.server.live import Live
from tests.server.scripted_engine import ScriptedEngine

GAUGES = {
    "vllm:num_requests_running": 3,
    "vllm:num_requests_waiting": 2,
    "vllm:kv_cache_usage_perc": 0.25,
    "vllm:prefix_cache_hits_total": 7,
    "vllm:prefix_cache_queries_total": 0,
    "vllm:num_preemptions_total": 0,
    "vllm:spec_decode_num_draft_tokens_total": 0,
    "vllm:spec_decode_num_accepted_tokens_total": 0,
    "headway:engine_restarts_total": 1,
}


@pytest.mark.parametrize("name", GAUGES)
def test_what_the_engine_says(live: Live, name: str) -> None:
    assert f'{name}{{model_name="tiny"}} {float(GAUGES[name])}' in live.get("/metrics").text


COUNTED = {
    "tokens": "vllm:generation_tokens_total",
    "prompt": "vllm:prompt_tokens_total",
    "first": "vllm:time_to_first_token_seconds_count",
    "gaps": "vllm:inter_token_latency_seconds_count",
    "means": "vllm:request_time_per_output_token_seconds_count",
    "whole": "vllm:e2e_request_latency_seconds_count",
    "stop": 'vllm:request_success_total{finished_reason="stop"',
    "length": 'vllm:request_success_total{finished_reason="length"',
    "abort": 'vllm:request_success_total{finished_reason="abort"',
    "error": 'vllm:request_success_total{finished_reason="error"',
    "invalid": 'headway:requests_refused_total{model_name="tiny",reason="invalid"',
}


def counts(live: Live) -> dict[str, float]:
    lines = live.scrape()
    return {short: live.metric(name, lines) for short, name in COUNTED.items()}


def growth(live: Live, before: dict[str, float]) -> dict[str, float]:
    after = counts(live)
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def test_metrics_usage_01_each_ending_is_counted_once(live: Live) -> None:
    drawn = len(live.text.tokens.encode("Hello world")) + 1
    before = counts(live)
    live.chat(n=2)
    live.chat(max_tokens=1)
    live.draws([EngineFailed("x")])
    live.chat()
    live.draws([[5], EngineFailed("x")])
    live.chat(stream=True)
    live.chat(n=0)
    prompt = live.engine.submits[0].num_prompt_tokens
    assert growth(live, before) == {
        "tokens": 2 * drawn + 2,
        "prompt": 4 * prompt,
        "first": 4,
        "gaps": 2 * (drawn - 1),
        "means": 2,
        "whole": 3,
        "stop": 2,
        "length": 1,
        "error": 2,
        "invalid": 1,
    }


def test_a068_scrapes_share_a_snapshot() -> None:
    now_s = [0.0]
    reads = []

    class Counting(ScriptedEngine):
        @property
        def restarts_total(self) -> int:
            reads.append(1)
            return 0

        @restarts_total.setter
        def restarts_total(self, _: int) -> None: ...

    metrics = Metrics(Counting(420, lambda _: []), "tiny", clock=lambda: now_s[0])
    before = len(reads)
    for _ in range(100):
        now_s[0] += 0.01
        metrics.text()
    assert len(reads) - before <= 5


def test_a068_no_label_comes_from_a_client(live: Live) -> None:
    series = {line.rsplit(" ", 1)[0] for line in live.scrape()}
    for name in ("someone", "a" * 500, "\n", "tiny2"):
        live.chat(model=name)
        live.chat(user=name, session_id=name[:200])
    assert {line.rsplit(" ", 1)[0] for line in live.scrape()} == series
