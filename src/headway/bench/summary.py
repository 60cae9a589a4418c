"""From the records of one run to what is told about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from headway.bench.metrics import distributions, ended_early, good, measured_time_s, prompt_tokens, rates
from headway.bench.outcome import NOT_FAILED
from headway.bench.quantiles import Distribution, distribution
from headway.bench.record import Record
from headway.bench.slo import Slo, percent

LATE_LEVEL = 0.99
MAX_FAILED = 0.05
"""Share of failed requests: a server that drops some has less to do for the rest, and looks better."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. `distributions` and `rates` by the keys of `metrics.METRICS`."""

    num_requests: int
    outcomes: dict[str, int]
    errors: dict[str, int]
    """The commonest reasons of failures, with how often."""
    measured_time_s: float
    distributions: dict[str, Distribution]
    rates: dict[str, float]
    lateness_s: Distribution | None
    loop_lag_s: Distribution | None
    usage_disagrees: int
    """Good answers whose usage contradicts the received text."""
    no_usage: int
    """Good answers without usage."""
    ended_early: int
    """Good answers that a stop token ended before the length asked for."""
    wrong_prompt_length: int
    """Good answers whose prompt, says the server, has another length than was asked for."""
    counted_by: dict[str, int]
    retries: int
    abandoned_calls: int
    """Calls never made, as an earlier one of their session had failed."""

    @property
    def failed(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome not in NOT_FAILED)

    @property
    def failed_share(self) -> float:
        """Of the requests that were sent, or not made as an earlier one of their session had failed."""
        sent = sum(count for outcome, count in self.outcomes.items() if outcome not in ("unsent", "interrupted"))
        due = sent + self.abandoned_calls
        return (self.failed + self.abandoned_calls) / due if due else 0.0


def summarise(records: Sequence[Record], lags_s: Sequence[float], slo: Slo | None, abandoned_calls: int = 0) -> Summary:
    answers = good(records)
    late = [max(0.0, record.lateness_s) for record in records if record.outcome not in ("unsent", "interrupted")]
    return Summary(
        num_requests=len(records),
        outcomes=dict(Counter(record.outcome for record in records).most_common()),
        errors=dict(Counter(f"{r.outcome}: {r.error}" for r in records if r.error).most_common(10)),
        measured_time_s=measured_time_s(records),
        distributions=distributions(records),
        rates=rates(records, slo),
        lateness_s=distribution(np.asarray(late, np.float64)),
        loop_lag_s=distribution(np.asarray(lags_s, np.float64)),
        usage_disagrees=sum(record.usage_disagrees for record in answers),
        no_usage=sum(record.usage_output_tokens is None for record in answers),
        ended_early=sum(map(ended_early, answers)),
        wrong_prompt_length=sum(prompt_tokens(record) != record.asked_input_tokens for record in answers),
        counted_by=dict(Counter(record.counted_by for record in answers)),
        retries=sum(record.retries for record in records),
        abandoned_calls=abandoned_calls,
    )


def objections(summary: Summary, max_lateness_s: float, max_failed: float = MAX_FAILED) -> list[str]:
    """Why a run is no result; none: it is one."""
    found: list[str] = []
    if not summary.outcomes.get("ok"):
        found.append("there is no good answer" if summary.outcomes else "no request was sent")
    elif (share := summary.failed_share) > max_failed:
        of = "of the requests failed" + (
            ", or were not made as one before had failed" if summary.abandoned_calls else ""
        )
        found.append(f"{percent(share)} {of} (allowed {percent(max_failed)}): what is left is not the load asked for")
    for what, late in (("requests went out", summary.lateness_s), ("the load generator woke up", summary.loop_lag_s)):
        if late is not None and (late_s := late.at(LATE_LEVEL).value) > max_lateness_s:
            found.append(
                f"{what} {1000 * late_s:.1f} ms late (p99; allowed {1000 * max_lateness_s:g} ms): the load generator, "
                "not the server, was the limit"
            )
    if unsent := summary.outcomes.get("unsent"):
        found.append(f"{unsent} calls were not sent, as too much was in flight")
    return found
