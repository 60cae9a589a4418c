"""Runs at rising load, until the SLO no longer holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.bench.record import Record
from headway.bench.run import Run
from headway.bench.slo import Slo, percent


@dataclass(frozen=True, slots=True)
class Point:
    """One load. Neither: the workload's own times."""

    concurrency: int | None = None
    rate_per_s: float | None = None

    @property
    def name(self) -> str:
        if self.concurrency is not None:
            return f"concurrency-{self.concurrency}"
        return f"rate-{self.rate_per_s:g}" if self.rate_per_s is not None else "own-times"

    @property
    def load(self) -> str:
        """In words."""
        return self.name.replace("-", " ", 1)

    @property
    def value(self) -> str:
        return self.name.partition("-")[2]

    def described(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in (("concurrency", self.concurrency), ("rate_per_s", self.rate_per_s))
            if value is not None
        }


def holds(run: Run, slo: Slo | None) -> bool:
    """Without an SLO every result holds; what is no result never does."""
    return run.is_result and (slo is None or run.summary.rates.get("slo_share", 0.0) >= slo.share)


async def sweep(
    points: Sequence[Point],
    one: Callable[[Point], Awaitable[tuple[Run, list[Record]]]],
    keep: Callable[[Point, Run, list[Record]], None],
    slo: Slo | None,
    stop: asyncio.Event,
) -> list[Run]:
    """In the order given. The first run that does not hold is the last, is part of the answer, and says why in its
    notes; each run is given to `keep` with them.
    """
    done: list[Run] = []
    for number, point in enumerate(points, 1):
        run, records = await one(point)
        is_last = stop.is_set() or not holds(run, slo)
        if is_last and (why := _why_last(run, slo, point, points[number:], interrupted=stop.is_set())):
            run.notes.append(why)
        keep(point, run, records)
        done.append(run)
        if is_last:
            break
    return done


def _why_last(run: Run, slo: Slo | None, point: Point, left: Sequence[Point], *, interrupted: bool) -> str:
    """Empty where its warnings say it all."""
    if slo is not None and run.is_result and not interrupted:
        share = run.summary.rates.get("slo_share", 0.0)
        why = f"{percent(share)} within {slo.said()}, {percent(slo.share)} needed"
    else:
        why = "it was interrupted" if interrupted else "it is no result"
        if not left:
            return ""
    if not left:
        return f"{point.load} breaks the SLO: {why}"
    return f"stopped after {point.load}: {why}; {', '.join(other.value for other in left)} not run"
