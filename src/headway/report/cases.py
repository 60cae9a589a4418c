"""What a report compares: runs, measured or simulated, in one form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from headway.bench.metrics import ITL, REQUEST_METRICS, gaps_s, good
from headway.bench.quantiles import LEVELS, Floats
from headway.bench.record import Record
from headway.bench.results import RUN, ResultError, read_records, read_run
from headway.bench.run import Run
from headway.bench.slo import percent
from headway.report.agreement import Requests, of_run

MAX_CASES = 64
MANY = 0.05
"""Share of answers above which a disagreement is a warning. Fewer happen to honest servers: special tokens have no
text."""
LEVEL_NAMES = {level: f"p{100 * level:g}" for level in LEVELS}


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95% interval, where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    def holds(self, value: float) -> bool:
        """Whether `value` cannot be told from this one."""
        return self.low is not None and self.high is not None and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Case:
    """`spreads`: by metric, `mean`, `p50`, `p90`, … ; `samples`: sorted, for the metrics that have them."""

    label: str
    """Cases of one label are one line of the frontier."""
    load: str
    kind: Literal["measured", "simulated"]
    spreads: dict[str, dict[str, Figure]]
    rates: dict[str, float]
    samples: dict[str, Floats] = field(default_factory=dict)
    records: Sequence[Record] = ()
    outcomes: dict[str, int] = field(default_factory=dict)
    is_result: bool = True
    """What is none is shown, and is never the best of several."""
    warnings: tuple[str, ...] = ()
    """Why it is no result, first."""
    notes: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    """What is needed to repeat it."""
    chips: int | None = None
    requests: Requests = field(default_factory=Requests)
    slo: str | None = None
    """Its limits in words; None: not told."""
    slo_share: float | None = None
    """How many requests must keep it."""

    @property
    def name(self) -> str:
        load = f", {self.load}" if self.load else ""
        return f"{self.label}{load}" + (" (simulated)" if self.kind == "simulated" else "")

    def short(self, cases: Sequence[Case]) -> str:
        """Without the label where it is the same for all."""
        if not self.load or any(case.label != self.label for case in cases):
            return self.name
        return self.load + (" (simulated)" if self.kind == "simulated" else "")


def case_of(run: Run, records: Sequence[Record] = ()) -> Case:
    """`records` empty: tables only."""
    summary = run.summary
    spreads: dict[str, dict[str, Figure]] = {}
    for key, spread in summary.distributions.items():
        figures = {"mean": Figure(spread.mean, spread.mean_low, spread.mean_high)}
        figures |= {LEVEL_NAMES[q.level]: Figure(q.value, q.low, q.high) for q in spread.quantiles}
        spreads[key] = figures | {"max": Figure(spread.max)}
    return Case(
        label=run.label,
        load=_load_of(run),
        kind="measured",
        spreads=spreads,
        rates=summary.rates,
        samples=_samples(records),
        records=records,
        outcomes=summary.outcomes,
        is_result=run.is_result,
        warnings=_warnings(run),
        notes=_notes(run),
        facts=_facts(run),
        requests=of_run(run, records),
        slo=run.slo.said() if run.slo else "",
        slo_share=run.slo.share if run.slo else None,
    )


def read_cases(paths: Iterable[Path]) -> list[Case]:
    """Runs, directories of runs, results of `headway simulate`: a table of the same name as a summary gives that
    summary its samples. Raises ResultError.
    """
    from headway.report.simulated import read_simulated

    cases: list[Case] = []
    paths = list(paths)
    for path in paths:
        if path.suffix == ".parquet" and path.with_suffix(".json") in paths:
            continue
        if path.is_dir():
            cases += [case_of(read_run(directory), read_records(directory)) for directory in _run_directories(path)]
        else:
            table = path.with_suffix(".parquet")
            cases += read_simulated(path, table if table != path and table in paths else None)
    if len(cases) > MAX_CASES:
        raise ResultError(f"{len(cases)} runs, where a report takes at most {MAX_CASES}")
    return _told_apart(cases)


def _run_directories(path: Path) -> list[Path]:
    """In the order in which they were run."""
    if (path / RUN).exists():
        return [path]
    found = [child for child in path.iterdir() if (child / RUN).exists()]
    if not found:
        raise ResultError(f"{path}: no {RUN} in it or one level below")
    return sorted(found, key=lambda child: ((child / RUN).stat().st_mtime_ns, child.name))


def _told_apart(cases: list[Case]) -> list[Case]:
    """Two runs with one name get numbers."""
    from dataclasses import replace

    total: dict[str, int] = {}
    for case in cases:
        total[case.name] = total.get(case.name, 0) + 1
    seen: dict[str, int] = {}
    named: list[Case] = []
    for case in cases:
        seen[case.name] = seen.get(case.name, 0) + 1
        again = total[case.name] > 1
        named.append(replace(case, load=f"{case.load} #{seen[case.name]}".strip()) if again else case)
    return named


def _load_of(run: Run) -> str:
    workload = run.workload
    if run.load.get("concurrency"):
        return f"concurrency {run.load['concurrency']}"
    if "rate_per_s" in workload:
        return f"{workload['rate_per_s']:g}/s"
    return f"{workload['name']} x{workload.get('speed', 1.0):g}"


def _samples(records: Sequence[Record]) -> dict[str, Floats]:
    answers = good(records)
    samples = {
        metric.key: np.sort([value for record in answers if (value := metric.of(record)) is not None])
        for metric in REQUEST_METRICS
    }
    samples[ITL.key] = np.sort(np.concatenate([gaps_s(record) for record in answers])) if answers else np.empty(0)
    return {key: values for key, values in samples.items() if values.size}


def _warnings(run: Run) -> tuple[str, ...]:
    summary = run.summary
    found = [f"not a result: {objection}" for objection in run.objections]
    if run.interrupted:
        found.append("interrupted: what was done by then")
    if summary.failed:
        found.append(f"{summary.failed} of {summary.num_requests} answers failed and are in no latency figure")
        found += [f"{count} x {error}" for error, count in list(summary.errors.items())[:3]]
    if summary.usage_disagrees > MANY * summary.num_requests:
        found.append(_disagreement(summary.usage_disagrees))
    if summary.abandoned_calls:
        found.append(f"{summary.abandoned_calls} calls were not made, as their session had failed")
    return tuple(found)


def _notes(run: Run) -> tuple[str, ...]:
    summary = run.summary
    found = list(run.notes)
    if 0 < summary.usage_disagrees <= MANY * summary.num_requests:
        found.append(_disagreement(summary.usage_disagrees))
    if summary.ended_early:
        found.append(f"{summary.ended_early} answers ended before the length that was asked for")
    if summary.wrong_prompt_length:
        found.append(
            f"{summary.wrong_prompt_length} prompts had another length, by the server's count, than was asked for"
        )
    if summary.no_usage:
        found.append(f"{summary.no_usage} answers came without usage")
    if chunks := summary.counted_by.get("chunks"):
        found.append(
            f"{chunks} answers came without a count of tokens that can be true, and there is no tokenizer: each chunk "
            "of text is taken for a token, so TPOT and tokens/s are of chunks"
        )
    if summary.retries:
        found.append(f"{summary.retries} retries")
    return tuple(found)


def _disagreement(count: int) -> str:
    return f"in {count} answers `usage` disagrees with what came, which is counted instead"


def _facts(run: Run) -> dict[str, str]:
    def listed(fields: dict[str, object]) -> str:
        return ", ".join(f"{name} {value}" for name, value in fields.items() if value not in (None, "", {}, []))

    late = {"lateness": run.summary.lateness_s, "loop lag": run.summary.loop_lag_s}
    return {
        "server": f"{run.url}, {run.endpoint.api}, {listed(run.server)}",
        "started": f"{run.started_at}, headway {run.headway}",
        "client": f"{listed(run.machine)}; {listed(run.client)}",
        "workload": listed(run.workload),
        "load": listed(run.load),
        "prompts": listed(run.prompts),
        "SLO": f"{run.slo.said()}, by {percent(run.slo.share)} of the requests" if run.slo else "none",
        "client late by (p50, p99)": "; ".join(
            f"{name} {1000 * spread.at(0.5).value:.2f}, {1000 * spread.at(0.99).value:.2f} ms"
            for name, spread in late.items()
            if spread is not None
        ),
        "output counted by": listed(dict(run.summary.counted_by)),
        "command": " ".join(run.command),
    }
