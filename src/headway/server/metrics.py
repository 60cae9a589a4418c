"""/metrics: vLLM's names where the meaning is the same, `headway:` elsewhere. Label values are from closed sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headway.server.engine import EngineClient

FinishedReason = Literal["stop", "length", "abort", "error"]
RefusedReason = Literal["invalid", "unauthorized", "too_large", "overloaded", "expired", "never_fits"]

_TTFT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
_E2E_S = (0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
_SNAPSHOT_S = 0.25
"""Scrapes within this time get the same text."""


class Metrics:
    def __init__(self, engine: EngineClient, model: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(engine, model))
        self._snapshot = b""
        self._snapshot_s = -_SNAPSHOT_S

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, ["model_name"], buckets=buckets, registry=self._registry).labels(model)

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, text, ["model_name", *labels], registry=self._registry)

        self.prompt_tokens = counter("vllm:prompt_tokens", "Prompt tokens of sequences that drew a token.").labels(
            model
        )
        self.generation_tokens = counter("vllm:generation_tokens", "Tokens drawn.").labels(model)
        self.ttft = histogram("vllm:time_to_first_token_seconds", "Sequences that drew a first token.", _TTFT_S)
        self.itl = histogram("vllm:inter_token_latency_seconds", "Gap between a sequence's draws.", _TOKEN_S)
        self.tpot = histogram("vllm:request_time_per_output_token_seconds", "Mean over a sequence.", _TOKEN_S)
        self.e2e = histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", _E2E_S)
        success = counter("vllm:request_success", "Sequences by ending, aborted ones too.", ("finished_reason",))
        finished: tuple[FinishedReason, ...] = ("stop", "length", "abort", "error")
        self._success = {reason: success.labels(model, reason) for reason in finished}
        refusals = counter("headway:requests_refused", "Requests that computed nothing.", ("reason",))
        self._refused = {reason: refusals.labels(model, reason) for reason in RefusedReason.__args__}  # type: ignore[attr-defined]

    def ended(self, reason: FinishedReason) -> None:
        self._success[reason].inc()

    def refused(self, reason: RefusedReason) -> None:
        self._refused[reason].inc()

    def text(self) -> bytes:
        """In Prometheus' text format; a snapshot that may be a quarter of a second old."""
        now_s = self._clock()
        if now_s - self._snapshot_s >= _SNAPSHOT_S:
            self._snapshot = generate_latest(self._registry)
            self._snapshot_s = now_s
        return self._snapshot

    def sequence(self, prompt_tokens: int) -> ObservedSequence:
        return ObservedSequence(self, prompt_tokens, self._clock)


class ObservedSequence:
    """What the server sees of one sequence; told once how it ended."""

    def __init__(self, metrics: Metrics, prompt_tokens: int, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._prompt_tokens = prompt_tokens
        self._clock = clock
        self._arrived_s = clock()
        self._first_s = 0.0
        self._last_s = 0.0
        self._tokens = 0
        self._over = False

    def drew(self, tokens: int) -> None:
        now_s = self._clock()
        metrics = self._metrics
        metrics.generation_tokens.inc(tokens)
        if self._tokens == 0:
            self._first_s = now_s
            metrics.ttft.observe(now_s - self._arrived_s)
            metrics.prompt_tokens.inc(self._prompt_tokens)
        else:
            metrics.itl.observe(now_s - self._last_s)
        self._last_s = now_s
        self._tokens += tokens

    def refused(self) -> None:
        """It never ran, so it has no ending."""
        self._over = True

    def ended(self, reason: FinishedReason) -> None:
        if self._over:
            return
        self._over = True
        self._metrics.ended(reason)
        if reason in ("stop", "length"):
            self._metrics.e2e.observe(self._clock() - self._arrived_s)
            if self._tokens > 1:
                self._metrics.tpot.observe((self._last_s - self._first_s) / (self._tokens - 1))


class _EngineCollector(Collector):
    """Reads the engine's own counts when it is scraped."""

    def __init__(self, engine: EngineClient, model: str) -> None:
        self._engine = engine
        self._model = model

    def collect(self) -> Iterable[Metric]:
        stats = self._engine.stats
        usage = stats.blocks_used / stats.blocks_total if stats.blocks_total else 0.0
        gauges = {
            "vllm:num_requests_running": ("Sequences in the batch.", stats.num_running),
            "vllm:num_requests_waiting": ("Sequences that wait to be scheduled.", stats.num_waiting),
            "vllm:kv_cache_usage_perc": ("Used part of the KV blocks, 0 to 1.", usage),
            "headway:blocks_used": ("KV blocks held by running sequences.", stats.blocks_used),
            "headway:blocks_cached": ("KV blocks that hold a prefix nobody runs on.", stats.blocks_cached),
            "headway:blocks_total": ("KV blocks.", stats.blocks_total),
            "headway:tier_blocks": ("KV blocks kept in slower tiers.", stats.tier_blocks),
        }
        counters = {
            "vllm:prefix_cache_queries": ("Prompt tokens looked up.", stats.prefix_queries_total),
            "vllm:prefix_cache_hits": ("Prompt tokens found.", stats.prefix_hits_total),
            "vllm:num_preemptions": ("Sequences preempted.", stats.preemptions_total),
            "vllm:spec_decode_num_draft_tokens": ("Tokens drafted.", stats.drafts_total),
            "vllm:spec_decode_num_accepted_tokens": ("Drafts accepted.", stats.drafts_accepted_total),
            "headway:blocks_loaded": ("KV blocks that came back from slower tiers.", stats.blocks_loaded_total),
            "headway:steps": ("Steps run.", stats.steps_total),
            "headway:tokens_computed": (
                "Tokens computed, prompts and recomputation included.",
                stats.tokens_computed_total,
            ),
            "headway:engine_restarts": ("Engines that had to be started again.", self._engine.restarts_total),
        }
        for name, (text, value) in gauges.items():
            yield self._labelled(GaugeMetricFamily(name, text, labels=["model_name"]), value)
        for name, (text, value) in counters.items():
            yield self._labelled(CounterMetricFamily(name, text, labels=["model_name"]), value)

    def _labelled(self, family: GaugeMetricFamily | CounterMetricFamily, value: float) -> Metric:
        family.add_metric([self._model], value)
        return family
