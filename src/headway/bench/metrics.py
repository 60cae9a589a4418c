"""Every figure and its definition: the only place where either is written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headway.bench.quantiles import Distribution, Floats, distribution
from headway.bench.record import Record
from headway.bench.slo import Slo

Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`key` ends in the unit, which is SI."""

    key: str
    label: str
    unit: str
    better: Better
    definition: str


@dataclass(frozen=True, slots=True)
class RequestMetric(Metric):
    """One number for each good answer; None where it has none."""

    of: Callable[[Record], float | None]


def ttft_s(record: Record) -> float | None:
    return record.arrivals_s[0] if record.arrivals_s else None


def tpot_s(record: Record) -> float | None:
    if record.output_tokens < 2 or record.end_s is None or not record.arrivals_s:
        return None
    return (record.end_s - record.arrivals_s[0]) / (record.output_tokens - 1)


def gaps_s(record: Record) -> Floats:
    return np.diff(np.asarray(record.arrivals_s, np.float64))


def interactivity(record: Record) -> float | None:
    tpot = tpot_s(record)
    return 1 / tpot if tpot else None


def longest_gap_s(record: Record) -> float | None:
    gaps = gaps_s(record)
    return float(gaps.max()) if gaps.size else None


REQUEST_METRICS = (
    RequestMetric(
        "ttft_s",
        "TTFT",
        "s",
        "lower",
        "from sending a request (a new connection and retries included) to the first arrival of text",
        ttft_s,
    ),
    RequestMetric(
        "tpot_s",
        "TPOT",
        "s",
        "lower",
        "mean over a request, first token left out: (finish reason - first text) / (output tokens - 1)",
        tpot_s,
    ),
    RequestMetric(
        "e2e_s", "end to end", "s", "lower", "from sending a request to its finish reason", lambda record: record.end_s
    ),
    RequestMetric(
        "interactivity_tokens_per_s",
        "interactivity",
        "tokens/s",
        "higher",
        "tokens/s a user sees: 1 / TPOT",
        interactivity,
    ),
    RequestMetric("longest_gap_s", "longest gap", "s", "lower", "the longest ITL within a request", longest_gap_s),
)
ITL = Metric(
    "itl_s",
    "ITL",
    "s",
    "lower",
    "each gap between two arrivals of text, of all requests together; what is read at one moment is one arrival, so a "
    "chunk of several tokens makes one gap",
)
RATES = (
    Metric("requests_per_s", "requests/s", "1/s", "higher", "good answers / measured time"),
    Metric(
        "output_tokens_per_s", "output tokens/s", "tokens/s", "higher", "output tokens of good answers / measured time"
    ),
    Metric(
        "total_tokens_per_s",
        "total tokens/s",
        "tokens/s",
        "higher",
        "prompt and output tokens of good answers / measured time",
    ),
    Metric(
        "goodput_requests_per_s",
        "goodput",
        "1/s",
        "higher",
        "good answers that kept every limit of the SLO / measured time",
    ),
    Metric(
        "goodput_tokens_per_s",
        "goodput tokens/s",
        "tokens/s",
        "higher",
        "output tokens of those answers / measured time",
    ),
    Metric(
        "slo_share", "share within the SLO", "", "higher", "answers that kept the SLO / requests; failed ones kept none"
    ),
    Metric(
        "cached_share",
        "cached prompt tokens",
        "",
        "higher",
        "cached prompt tokens / prompt tokens, where a server tells",
    ),
    Metric("tokens_per_arrival", "tokens an arrival", "tokens", "lower", "output tokens / arrivals of text"),
)
DISTRIBUTIONS: tuple[Metric, ...] = (*REQUEST_METRICS[:2], ITL, *REQUEST_METRICS[2:])
METRICS = {metric.key: metric for metric in (*DISTRIBUTIONS, *RATES)}
NOTES = (
    "measured time: from the first request's sending to the end of the last answer",
    "good answer: outcome `ok`; nothing else enters any figure but the share within the SLO",
    "output tokens: the server's usage, unless the received text differs by more than a fifth: then the text's; "
    "with neither usage nor tokenizer, the chunks that carried text",
    "quantiles: a value that was seen; in brackets the 95% interval (Woodruff, requests as clusters)",
    "lateness: sent - scheduled, and how late the load generator's own event loop woke up",
)


def good(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.outcome == "ok"]


def ended_early(record: Record) -> bool:
    """A good answer that a stop token ended before the length asked for."""
    short = record.output_tokens < record.asked_output_tokens
    return record.outcome == "ok" and record.finish_reason != "length" and short


def distributions(records: Sequence[Record]) -> dict[str, Distribution]:
    """Of good answers, by key; those without a sample are left out."""
    answers = good(records)
    found: dict[str, Distribution | None] = {}
    for metric in REQUEST_METRICS:
        values = [seen for record in answers if (seen := metric.of(record)) is not None]
        found[metric.key] = distribution(np.asarray(values, np.float64))
    gaps = [gaps for record in answers if (gaps := gaps_s(record)).size]
    sizes = np.asarray([part.size for part in gaps], np.int64)
    found[ITL.key] = distribution(np.concatenate(gaps), sizes) if gaps else None
    return {metric.key: value for metric in DISTRIBUTIONS if (value := found[metric.key]) is not None}


def keeps(record: Record, slo: Slo) -> bool:
    """A limit on what an answer does not have (the TPOT of one token) is kept."""
    values = (
        (slo.ttft_s, ttft_s(record)),
        (slo.tpot_s, tpot_s(record)),
        (slo.gap_s, longest_gap_s(record)),
        (slo.e2e_s, record.end_s),
    )
    return record.outcome == "ok" and all(limit is None or value is None or value <= limit for limit, value in values)


def measured_time_s(records: Sequence[Record]) -> float:
    sent = [record for record in records if record.outcome not in ("unsent", "interrupted")]
    if not sent:
        return 0.0
    return max(record.sent_s + record.closed_s for record in sent) - min(record.sent_s for record in sent)


def prompt_tokens(record: Record) -> int:
    return record.asked_input_tokens if record.usage_prompt_tokens is None else record.usage_prompt_tokens


def rates(records: Sequence[Record], slo: Slo | None) -> dict[str, float]:
    """By key; what cannot be said is left out."""
    answers = good(records)
    time_s = measured_time_s(records)
    figures: dict[str, float] = {}
    if time_s > 0:
        output = sum(record.output_tokens for record in answers)
        figures["requests_per_s"] = len(answers) / time_s
        figures["output_tokens_per_s"] = output / time_s
        figures["total_tokens_per_s"] = (output + sum(map(prompt_tokens, answers))) / time_s
    if slo is not None and time_s > 0:
        kept = [record for record in answers if keeps(record, slo)]
        asked = sum(record.outcome != "interrupted" for record in records)
        figures["goodput_requests_per_s"] = len(kept) / time_s
        figures["goodput_tokens_per_s"] = sum(record.output_tokens for record in kept) / time_s
        figures["slo_share"] = len(kept) / asked if asked else 0.0
    told = [record for record in answers if record.cached_tokens is not None]
    if prompts := sum(map(prompt_tokens, told)):
        figures["cached_share"] = sum(record.cached_tokens or 0 for record in told) / prompts
    if arrivals := sum(len(record.arrivals_s) for record in answers):
        figures["tokens_per_arrival"] = sum(record.output_tokens for record in answers) / arrivals
    return figures
