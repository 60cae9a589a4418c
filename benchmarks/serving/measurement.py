"""From request times to the figures that are compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .jobs import Job

REFERENCE = "headway"


@dataclass(frozen=True, slots=True)
class Answer:
    """One request as its client saw it. Times share one origin; `error` leaves the rest without meaning."""

    sent_s: float
    first_s: float = 0.0
    """When the first piece of the answer came."""
    last_s: float = 0.0
    """When the last one came."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    """Both as the server's `usage` has them."""
    error: str | None = None

    @property
    def ttft_s(self) -> float:
        return self.first_s - self.sent_s

    @property
    def tpot_s(self) -> float:
        """Mean time per output token, the first one left out; needs two tokens."""
        return (self.last_s - self.first_s) / (self.output_tokens - 1)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One engine, one job, one run. Rates and times are of right answers only, and None where there are none."""

    engine: str
    job: str
    run: int
    right: int
    wrong: int
    """Answered with another number of tokens than was asked for."""
    failed: int
    output_tokens_per_s: float | None
    """Over the whole job: from the first request sent to the last token received."""
    ttft_s: float | None
    tpot_s: float | None
    client_cpu_share: float | None
    """CPU seconds that the load generator took in a second: on few cores it takes them from the engine."""
    cores_of_others: float | None
    """Mean number of cores that were busy with neither the engine nor the load generator."""
    errors: tuple[str, ...]


def measure(
    engine: str,
    job: Job,
    run: int,
    answers: Sequence[Answer],
    client_cpu_share: float | None = None,
    cores_of_others: float | None = None,
) -> Measurement:
    answered = [answer for answer in answers if answer.error is None]
    right = [a for a in answered if a.prompt_tokens == job.prompt_tokens and a.output_tokens == job.output_tokens]
    wrong = [a for a in answered if a not in right]
    errors = {a.error for a in answers if a.error is not None}
    errors |= {f"{a.prompt_tokens} tokens in, {a.output_tokens} out" for a in wrong}
    return Measurement(
        engine=engine,
        job=job.name,
        run=run,
        right=len(right),
        wrong=len(wrong),
        failed=len(answers) - len(answered),
        output_tokens_per_s=_rate(answered, right),
        ttft_s=_mean(a.ttft_s for a in right),
        tpot_s=_mean(a.tpot_s for a in right),
        client_cpu_share=client_cpu_share,
        cores_of_others=cores_of_others,
        errors=tuple(sorted(errors))[:5],
    )


def _rate(answered: Sequence[Answer], right: Sequence[Answer]) -> float | None:
    """Wrong answers took their time too."""
    if not right:
        return None
    span_s = max(a.last_s for a in answered) - min(a.sent_s for a in answered)
    return sum(a.output_tokens for a in right) / span_s


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.fmean(known) if known else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians over an engine's runs of one job."""

    runs: int
    output_tokens_per_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    ratio_to_headway: float | None
    """Output tokens/s over Headway's. Median of the ratios within a run: machines change speed between runs."""
    cores_of_others: float | None
    right: int
    wrong: int
    failed: int


def summarise(measurements: Sequence[Measurement], engine: str, job: str) -> Summary | None:
    """None when the engine has not run the job."""
    mine = [m for m in measurements if (m.engine, m.job) == (engine, job)]
    if not mine:
        return None
    reference = {m.run: m.output_tokens_per_s for m in measurements if (m.engine, m.job) == (REFERENCE, job)}
    ratios = [
        m.output_tokens_per_s / base
        for m in mine
        if m.output_tokens_per_s is not None and (base := reference.get(m.run)) is not None
    ]
    return Summary(
        runs=len(mine),
        output_tokens_per_s=_median(mine, lambda m: m.output_tokens_per_s),
        ttft_s=_median(mine, lambda m: m.ttft_s),
        tpot_s=_median(mine, lambda m: m.tpot_s),
        ratio_to_headway=statistics.median(ratios) if ratios else None,
        cores_of_others=_median(mine, lambda m: m.cores_of_others),
        right=sum(m.right for m in mine),
        wrong=sum(m.wrong for m in mine),
        failed=sum(m.failed for m in mine),
    )


def _median(measurements: Sequence[Measurement], of: Callable[[Measurement], float | None]) -> float | None:
    known = [value for m in measurements if (value := of(m)) is not None]
    return statistics.median(known) if known else None
