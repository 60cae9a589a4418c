"""What the simulations of docs/effects share: the replica, the sweep, the figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from effect_pages import Column, Row

from headway.arithmetic.hf_config import shape_from_config
from headway.catalog import Catalog, load_catalog
from headway.cli.sweep_text import sweep_progress
from headway.simulator.results import Summary
from headway.simulator.simulation import Setup
from headway.simulator.sweep import grid, sweep
from headway.simulator.workers import Processes
from headway.workload.lengths import Distribution, LogNormal


@cache
def catalog() -> Catalog:
    return load_catalog()


def setup(model: str = "llama-3.1-8b", system: str = "hgx-h100", **policy: Any) -> Setup:
    return Setup(shape_from_config(catalog().config(model)), catalog().system(system), **policy)


def swept(axes: Mapping[str, Sequence[Any]], run: Callable[[Any, float], Row], size: float) -> list[Row]:
    """A row a point: where it is, and what `run` found there. On a terminal a bar shows how far it is."""
    points = grid(axes)
    with sweep_progress(len(points)) as advance:
        rows = sweep(points, partial(_run, run, size), place=Processes(1 if size < 1 else None), on_row=advance)
    for row in rows:
        if row.ended.result is None:
            raise SystemExit(f"{run.__name__} at {row.point.values}: {row.ended.error}")
    return [{**row.point.values, **(row.ended.result or {})} for row in rows]


def _run(run: Callable[[Any, float], Row], size: float, values: Mapping[str, Any]) -> Row:
    return run(values, size)


def figures(s: Summary) -> Row:
    return {
        "tokens_per_s": s.output_tokens_per_s,
        "tokens_per_s_per_chip": s.output_tokens_per_s_per_chip,
        "interactivity": s.interactivity_tokens_per_s,
        "ttft_mean_s": s.ttft_s.mean,
        "ttft_p50_s": s.ttft_s.p50,
        "ttft_p99_s": s.ttft_s.p99,
        "tpot_p50_s": s.tpot_s.p50,
        "itl_p50_s": s.itl_s.p50,
        "itl_p99_s": s.itl_s.p99,
        "hit_rate": s.hit_rate,
        "preemptions": s.preemptions,
        "goodput_per_s": s.goodput_requests_per_s,
        "goodput_share": s.goodput_share,
        "usd_per_mtok": s.usd_per_mtok_output,
        "busy": s.busy_share,
    }


def in_batch(s: Summary) -> float:
    """Requests at a time between queue and end, by Little's law."""
    return s.requests_per_s * ((s.e2e_s.mean or 0.0) - (s.queue_s.mean or 0.0))


def at(rows: Sequence[Row], **values: Any) -> Row:
    """The row of this point."""
    return next(row for row in rows if all(row[key] == value for key, value in values.items()))


def with_mean(mean: float, log_std: float) -> Distribution:
    return LogNormal(mean / math.exp(log_std**2 / 2), log_std)


MS = partial(Column, format=",.1f", scale=1000)
SPEED = Column("tokens_per_s", "tokens/s", ",.0f")
TTFT = Column("ttft_p50_s", "TTFT p50, s", ".3f")
TTFT99 = Column("ttft_p99_s", "TTFT p99, s", ".3f")
