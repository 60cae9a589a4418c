"""The chart of one simulated run: how its times are spread, and how many requests ran and waited."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.bench.quantiles import Floats
from headway.report.charts import COLOURS, MAX_POINTS, SCHEMA

if TYPE_CHECKING:
    from headway.simulator.record import Record
    from headway.simulator.simulation import Sink

BINS = 200
TIMES = ("TTFT", "TPOT", "end to end")
COUNTS = ("running", "waiting")


class Samples:
    """A sink that keeps five numbers a call; `then` gets the record too. Refused calls are left out."""

    def __init__(self, then: Sink | None = None) -> None:
        self._then = then
        self._numbers = array("d")

    def add(self, record: Record) -> None:
        if self._then is not None:
            self._then.add(record)
        if not record.refused:
            r = record.receipt
            tpot_ns = r.tpot_ns if r.tokens_generated > 1 else np.nan
            self._numbers.extend((record.arrival_ns, r.queue_ns, record.ttft_ns, tpot_ns, record.e2e_ns))

    def columns_s(self) -> tuple[Floats, ...]:
        """[calls] each, in seconds: arrival, queue, TTFT, TPOT (NaN: less than two tokens), end to end."""
        return tuple(np.frombuffer(self._numbers).reshape(-1, 5).T * 1e-9)


def run_chart(samples: Samples, title: str) -> dict[str, Any]:
    """Vega-Lite: two pictures, one above the other."""
    arrival_s, queue_s, *times = samples.columns_s()
    begin_s, end_s = arrival_s + queue_s, arrival_s + times[-1]
    edges = np.linspace(arrival_s.min(), end_s.max(), BINS + 1) if end_s.size else np.zeros(1)
    counts = (_mean_counts(begin_s, end_s, edges), _mean_counts(arrival_s, begin_s, edges))
    return {
        "$schema": SCHEMA,
        "title": {"text": title, "subtitle": ["simulated; refused requests are left out"]},
        "vconcat": [
            _cdf([row for name, values in zip(TIMES, times, strict=True) for row in _steps(name, values)]),
            _timeline([row for name, mean in zip(COUNTS, counts, strict=True) for row in _bins(name, edges, mean)]),
        ],
        "resolve": {"scale": {"color": "independent"}},
    }


def _mean_counts(begins: Floats, ends: Floats, edges: Floats) -> Floats:
    """How many intervals are open, the mean over each bin."""
    return np.diff(_time_since(begins, edges) - _time_since(ends, edges)) / np.diff(edges)


def _time_since(events: Floats, times: Floats) -> Floats:
    """At each time, the sum over all events before it of how long ago they were."""
    before = np.sort(events)
    sums = np.concatenate([[0.0], np.cumsum(before)])
    counts = np.searchsorted(before, times)
    since: Floats = counts * times - sums[counts]
    return since


def _steps(name: str, values: Floats) -> list[dict[str, Any]]:
    """At most MAX_POINTS of a cumulative distribution."""
    values = np.sort(values[values > 0])
    at = np.unique(np.linspace(0, values.size - 1, min(values.size, MAX_POINTS)).round().astype(int))
    return [{"what": name, "s": float(values[i]), "share": (i + 1) / values.size} for i in at.tolist()]


def _bins(name: str, edges: Floats, counts: Floats) -> list[dict[str, Any]]:
    return [{"what": name, "s": float(s), "requests": float(n)} for s, n in zip(edges[:-1], counts, strict=True)]


def _cdf(rows: list[dict[str, Any]]) -> dict[str, Any]:
    scale = {"type": "log", "nice": False}
    x = {"field": "s", "type": "quantitative", "title": "seconds", "scale": scale, "axis": {"format": "~s"}}
    y = {"field": "share", "type": "quantitative", "title": "requests at most so long", "axis": {"format": "%"}}
    return _picture(rows, {"x": x, "y": y}, TIMES)


def _timeline(rows: list[dict[str, Any]]) -> dict[str, Any]:
    x = {"field": "s", "type": "quantitative", "title": "seconds from the start"}
    y = {"field": "requests", "type": "quantitative", "title": "requests, mean of a bin"}
    return _picture(rows, {"x": x, "y": y}, COUNTS)


def _picture(rows: list[dict[str, Any]], encoding: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    scale = {"domain": list(names), "range": list(COLOURS[: len(names)])}
    colour = {"field": "what", "type": "nominal", "title": None, "scale": scale}
    mark = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.6}
    return {
        "width": 560,
        "height": 220,
        "data": {"values": rows},
        "mark": mark,
        "encoding": {**encoding, "color": colour},
    }
