"""What was measured, as a table and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from .jobs import Job
from .measurement import Summary, summarise
from .race import Results

_MS = 1000


def cpu_name() -> str:
    """From /proc/cpuinfo; `unknown` elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_json(results: Results, engines: Iterable[str], jobs: Sequence[Job], threads: int) -> dict[str, Any]:
    return {
        "machine": {"cpu": cpu_name(), "cores": cores(), "threads": threads},
        "jobs": {job.name: asdict(job) for job in jobs},
        "engines": {
            name: {"status": _status(results, name), "jobs": _summaries(results, name, jobs)} for name in engines
        },
        "measurements": [asdict(m) for m in results.measurements],
    }


def _status(results: Results, engine: str) -> str:
    if engine in results.absent:
        return f"not installed: {results.absent[engine]}"
    if engine in results.lost:
        return f"failed: {results.lost[engine]}"
    return "ok" if any(m.engine == engine for m in results.measurements) else "not reached"


def _summaries(results: Results, engine: str, jobs: Sequence[Job]) -> dict[str, Any]:
    found = {job.name: summarise(results.measurements, engine, job.name) for job in jobs}
    return {name: asdict(summary) for name, summary in found.items() if summary is not None}


def as_table(results: Results, engines: Iterable[str], jobs: Sequence[Job]) -> Table:
    table = Table(title="Output tokens/s, medians over runs", title_justify="left")
    table.add_column("job")
    table.add_column("engine", no_wrap=True)
    for heading in ("tok/s", "of Headway", "TTFT ms", "TPOT ms", "runs", "wrong", "others"):
        table.add_column(heading, justify="right")
    for job in jobs:
        rows = [(name, summarise(results.measurements, name, job.name)) for name in engines]
        for name, summary in rows:
            if summary is not None:
                table.add_row(job.name, name, *_cells(summary))
        table.add_section()
    return table


def absences(results: Results, engines: Iterable[str]) -> list[str]:
    return [f"{name}: {_status(results, name)}" for name in engines if _status(results, name) != "ok"]


def _cells(summary: Summary) -> tuple[str, ...]:
    return (
        _number(summary.output_tokens_per_s, ".1f"),
        _number(summary.ratio_to_headway, ".2f"),
        _number(summary.ttft_s, ".0f", _MS),
        _number(summary.tpot_s, ".1f", _MS),
        str(summary.runs),
        str(summary.wrong + summary.failed),
        _number(summary.cores_of_others, ".1f"),
    )


def _number(value: float | None, form: str, scale: float = 1) -> str:
    return "-" if value is None else format(value * scale, form)
