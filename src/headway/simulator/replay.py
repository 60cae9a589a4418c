"""A step log fed to a fresh scheduler: the same decisions, or the line where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.scheduler import step_log, step_records
from headway.simulator.log_trace import LogTrace
from headway.simulator.trace_out import TraceOut
from headway.workload.step_log_trace import log_lines


@dataclass(frozen=True, slots=True)
class Replayed:
    steps: int
    requests: int
    cut_line: int | None = None
    """The log's last line, if it breaks off: what is before it was replayed."""


def replay(path: Path, out: TraceOut | None = None) -> Replayed:
    """Raises StepLogError at the first line that is no record or whose decision differs, WorkloadError for no file.

    Every plan is compared by its digest, which covers every decision in it, and every receipt in full. `out` gets the
    run's trace events.
    """
    requests = 0
    cut_line: int | None = None

    def on_cut(number: int) -> None:
        nonlocal cut_line
        cut_line = number

    def lines() -> Iterator[bytes]:
        nonlocal requests
        for line in log_lines(path, on_cut):
            requests += line.startswith(b'{"event":"ended"')
            yield line

    watched = None if out is None else LogTrace(out)
    try:
        if watched is None:
            _, steps = step_log.replay(lines())
        else:
            _, steps = step_log.replay(lines(), watched.planned, watched.fed)
    except step_records.StepLogError as error:
        raise step_records.StepLogError(f"{path}: {error}") from None
    return Replayed(steps, requests, cut_line)
