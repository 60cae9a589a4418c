"""One Vega-Lite spec for each chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.bench.metrics import METRICS, Metric
from headway.bench.quantiles import LEVELS, Floats
from headway.report.cases import LEVEL_NAMES, Case
from headway.report.labels import FONT_SIZE, PLACES, placed

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""A name of the format; nothing is fetched from it."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
"""Okabe and Ito's, to be told apart by any eye; after eight they begin again."""
MAX_POINTS = 300
BINS = 60
CDFS = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
WIDTH, HEIGHT = 420, 260


@dataclass(frozen=True, slots=True)
class Chart:
    name: str
    """For a file and for ids."""
    title: str
    caption: str
    spec: dict[str, Any]


def charts(cases: Sequence[Case]) -> list[Chart]:
    """Those that have something to show."""
    made = [frontier(cases), *(cdf(cases, METRICS[key]) for key in CDFS), throughput(cases), in_flight(cases)]
    return [chart for chart in made if chart is not None]


def frontier(cases: Sequence[Case]) -> Chart | None:
    """Interactivity against throughput; a run that another beats in both is not on it."""
    points = [
        (case, case.spreads["interactivity_tokens_per_s"]["p50"].value, case.rates["output_tokens_per_s"])
        for case in cases
        if "p50" in case.spreads.get("interactivity_tokens_per_s", {}) and "output_tokens_per_s" in case.rates
    ]
    if not points:
        return None
    results = [i for i, (case, _, _) in enumerate(points) if case.is_result]
    front = {results[i] for i in pareto([points[i][1:] for i in results])}
    rows = [
        {
            "run": case.name,
            "label": _series(case),
            "load": case.load,
            "kind": case.kind,
            "x": x,
            "y": y,
            "front": i in front,
            "step": i,
        }
        for i, (case, x, y) in enumerate(points)
    ]
    far, high = _beyond([x for _, x, _ in points]), _beyond([y for _, _, y in points])
    at = [(x / far * WIDTH, y / high * HEIGHT) for _, x, y in points]
    for row, place in zip(rows, placed(at, [case.load for case, _, _ in points], WIDTH), strict=True):
        row["place"] = place
    x = _axis("x", "interactivity, tokens/s a user (p50) →", zero=True, most=far)
    y = _axis("y", "output tokens/s →", zero=True, most=high)
    order = [*dict.fromkeys(_series(case) for case, _, _ in points)]
    base = {"x": x, "y": y, "color": _colour("label", order)}
    spec = _spec(
        rows,
        [
            {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {**base, "order": {"field": "step"}}},
            {
                "mark": {"type": "point", "size": 90, "strokeWidth": 2},
                "encoding": {
                    **base,
                    "shape": _shape(),
                    "fill": {
                        "condition": {
                            "test": "datum.front",
                            "field": "label",
                            "type": "nominal",
                            "scale": _scale(order),
                        },
                        "value": "white",
                    },
                },
            },
            *(_labels(place, mark, x, y) for place, mark in PLACES.items()),
        ],
    )
    caption = "Filled: on the Pareto frontier of all runs shown; no other run is better in both directions."
    if len(results) < len(points):
        caption += " Runs that are no result are never on it."
    if not all(row["place"] for row in rows):
        caption += " Points without a label have no room for it."
    return Chart("frontier", "Interactivity against throughput", caption, spec)


def _labels(place: str, mark: dict[str, Any], x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """Of the points that have theirs in this place."""
    return {
        "mark": {"type": "text", "fontSize": FONT_SIZE, **mark},
        "transform": [{"filter": f"datum.place == '{place}'"}],
        "encoding": {"x": x, "y": y, "text": {"field": "load"}},
    }


def _beyond(values: Sequence[float]) -> float:
    """Where an axis ends: labels have room beyond the last point."""
    return 1.1 * max(values) or 1.0


def pareto(points: Sequence[tuple[float, float]]) -> set[int]:
    """Indexes of the points that no other point beats in one coordinate without losing in the other."""
    front: set[int] = set()
    best = -np.inf
    for i in sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1])):
        if points[i][1] > best:
            front.add(i)
            best = points[i][1]
        elif any(points[i] == points[j] for j in front):
            front.add(i)
    return front


def cdf(cases: Sequence[Case], metric: Metric) -> Chart | None:
    """Measured samples as lines; of a simulation without samples its quantiles as points."""
    lines = [row for case in cases if metric.key in case.samples for row in _steps(case, metric.key)]
    marks = [
        {"run": case.name, "kind": case.kind, "x": case.spreads[metric.key][LEVEL_NAMES[level]].value, "y": level}
        for case in cases
        if metric.key not in case.samples
        for level in LEVELS
        if LEVEL_NAMES[level] in case.spreads.get(metric.key, {})
    ]
    if not lines and not marks:
        return None
    order = [case.name for case in cases]
    x = _axis("x", f"{metric.label}, {metric.unit}", zero=True)
    y = _axis("y", "share of requests" if metric.key != "itl_s" else "share of gaps", zero=True)
    y["axis"] |= {"format": "%"}
    colour = _colour("run", order)
    spec = _spec(
        lines + marks,
        [
            {
                "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
                "transform": [{"filter": "datum.line"}],
                "encoding": {"x": x, "y": y, "color": colour, "strokeDash": _dash()},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "shape": "diamond"},
                "transform": [{"filter": "!datum.line"}],
                "encoding": {"x": x, "y": y, "color": colour},
            },
        ],
    )
    caption = f"{metric.definition}. Left is better. Diamonds: quantiles of a simulation."
    return Chart(
        f"cdf-{metric.key.removesuffix('_s')}", f"{metric.label}: how many were at most so long", caption, spec
    )


def _steps(case: Case, key: str) -> list[dict[str, Any]]:
    samples = case.samples[key]
    size = samples.size
    at = np.unique(np.linspace(0, size - 1, min(size, MAX_POINTS)).round().astype(int))
    base = {"run": case.name, "kind": case.kind, "line": True}
    steps = [base | {"x": float(samples[i]), "y": (i + 1) / size} for i in at.tolist()]
    return [base | {"x": float(samples[0]), "y": 0.0}, *steps]


def throughput(cases: Sequence[Case]) -> Chart | None:
    end_s = _end_s(cases)
    rows = [row for case in cases for row in _binned_tokens(case, end_s)]
    caption = f"Output tokens of good answers as they arrived, in bins of {end_s / BINS:.3g} s."
    return _timeline(cases, rows, "throughput", "Output tokens/s over time", "output tokens/s", caption, end_s)


def in_flight(cases: Sequence[Case]) -> Chart | None:
    rows = [row for case in cases for row in _open_requests(case, _end_s(cases))]
    caption = "Requests sent and not yet over, failed ones included."
    return _timeline(cases, rows, "in-flight", "Requests in flight over time", "requests", caption, _end_s(cases))


def _timeline(
    cases: Sequence[Case], rows: list[dict[str, Any]], name: str, title: str, label: str, caption: str, end_s: float
) -> Chart | None:
    if not rows or end_s <= 0:
        return None
    drawn = list(dict.fromkeys(row["run"] for row in rows))
    encoding = {
        "x": _axis("x", "seconds from the start", zero=True),
        "y": _axis("y", label, zero=True),
        "color": _colour("run", [case.name for case in cases]) | {"legend": {"values": drawn}},
    }
    mark = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.2}
    return Chart(name, title, caption, _spec(rows, [{"mark": mark, "encoding": encoding}]))


def _end_s(cases: Sequence[Case]) -> float:
    return max((record.sent_s + record.closed_s for case in cases for record in case.records), default=0.0)


def _binned_tokens(case: Case, end_s: float) -> list[dict[str, Any]]:
    answers = [record for record in case.records if record.outcome == "ok" and record.arrivals_s]
    if not answers:
        return []
    times = np.concatenate([np.asarray(record.arrivals_s) + record.sent_s for record in answers])
    # Tokens are not known a chunk, so an answer's are spread evenly over its arrivals.
    weights = np.concatenate([np.full(len(r.arrivals_s), r.output_tokens / len(r.arrivals_s)) for r in answers])
    sums, edges = np.histogram(times, BINS, (0.0, end_s), weights=weights)
    over = int(np.searchsorted(edges, times.max(), "right"))
    return _rows(case, edges[: over + 1], np.append(sums[:over] * BINS / end_s, 0.0)[: over + 1])


def _open_requests(case: Case, end_s: float) -> list[dict[str, Any]]:
    if not case.records or end_s <= 0:
        return []
    begins = np.sort([record.sent_s for record in case.records])
    ends = np.sort([record.sent_s + record.closed_s for record in case.records])
    times = np.linspace(0.0, end_s, 2 * BINS)
    counts = np.searchsorted(begins, times, "right") - np.searchsorted(ends, times, "right")
    return _rows(case, times, counts.astype(np.float64))


def _rows(case: Case, xs: Floats, ys: Floats) -> list[dict[str, Any]]:
    return [{"run": case.name, "x": float(x), "y": float(y)} for x, y in zip(xs, ys, strict=True)]


def _series(case: Case) -> str:
    return case.label + (" (simulated)" if case.kind == "simulated" else "")


def _spec(rows: list[dict[str, Any]], layers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": rows},
        "layer": layers,
        "config": {
            "legend": {"orient": "bottom", "columns": 1, "labelLimit": 420, "title": None, "symbolStrokeWidth": 3},
            "view": {"stroke": "#cccccc"},
        },
    }


def _axis(field: str, title: str, *, zero: bool, most: float | None = None) -> dict[str, Any]:
    """`most`: where it ends, and not at the next round number."""
    scale = {"zero": zero} if most is None else {"domain": [0, most], "nice": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": {"title": title}}


def _scale(order: list[str]) -> dict[str, Any]:
    return {"domain": order, "range": [COLOURS[i % len(COLOURS)] for i in range(len(order))]}


def _colour(field: str, order: list[str]) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "scale": _scale(order)}


def _dash() -> dict[str, Any]:
    scale = {"domain": ["measured", "simulated"], "range": [[1, 0], [5, 3]]}
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": None}


def _shape() -> dict[str, Any]:
    scale = {"domain": ["measured", "simulated"], "range": ["circle", "diamond"]}
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": None}
