"""Runs at rising load, until the SLO no longer holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.bench.record import Record
from headway.bench.run import Run
from headway.bench.slo import Slo


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
    slo: Slo | None,
    stop: asyncio.Event,
) -> list[tuple[Run, list[Record]]]:
    """In the order given. The first run that does not hold is the last, and part of the answer."""
    done: list[tuple[Run, list[Record]]] = []
    for point in points:
        done.append(await one(point))
        if stop.is_set() or not holds(done[-1][0], slo):
            break
    return done
