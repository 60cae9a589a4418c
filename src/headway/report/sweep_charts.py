"""Charts of a sweep: any figure or swept option against any other; the frontier of two that are best when high."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.report.charts import COLOURS, SCHEMA, pareto
from headway.report.measures import MEASURES, Measure, MeasureError, measure

FRONTIER = ("interactivity", "throughput")
WIDE = 30.0
"""An axis over more than so many times its least value is logarithmic."""
MOST_LABELS = 60
Point = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A point's values, and its result."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a chart shows where."""

    x: str | Measure
    """A swept option, or a figure."""
    y: str | Measure
    by: str | None
    """The swept option that has colours."""
    rest: tuple[str, ...]
    """Swept options that are on no axis: they tell points apart."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of swept options that have one."""

    @property
    def apart(self) -> tuple[str, ...]:
        """Those of the rest of which each value has a line: between two figures, a line goes along the last of all."""
        return self.rest[:-1] if isinstance(self.x, Measure) and isinstance(self.y, Measure) else self.rest

    @property
    def is_frontier(self) -> bool:
        return (self.x, self.y) == tuple(MEASURES[name] for name in FRONTIER)


def chosen(
    axes: Sequence[str],
    x: str | None = None,
    y: str | None = None,
    by: str | None = None,
    units: Mapping[str, str] | None = None,
) -> Chosen:
    """`axes`: what is swept, with the `units` of those that have one. Raises MeasureError for a name that is none of
    these nor a figure of results.
    """
    across, up = (_named(axes, name or other) for name, other in zip((x, y), FRONTIER, strict=True))
    left = [axis for axis in axes if axis not in (across, up)]
    if by is not None and by not in left:
        raise MeasureError(
            f"--by {by}: must be a swept option that is on no axis: {', '.join(left) or 'there is none'}"
        )
    by = by or next(iter(left), None)
    return Chosen(across, up, by, tuple(axis for axis in left if axis != by), units or {})


def _named(axes: Sequence[str], name: str) -> str | Measure:
    return name if name in axes else measure(name)


def sweep_chart(points: Sequence[Point], axes: Chosen, title: str | None = None) -> dict[str, Any]:
    """Vega-Lite. Points that have no such figure are left out."""
    rows = [row for i, (values, result) in enumerate(points) if (row := _row(i, values, result, axes)) is not None]
    order = list(dict.fromkeys(row["by"] for row in rows))
    base = {"x": _axis("x", axes.x, rows, axes), "y": _axis("y", axes.y, rows, axes)}
    if axes.by is not None:
        base["color"] = _colour(_words([axes.by], axes), order)
    layers = _frontier(rows, base) if axes.is_frontier else _lines(rows, base, axes)
    return {
        "$schema": SCHEMA,
        "title": {"text": title or _title(axes), "subtitle": _subtitle(points, axes)},
        "width": 560,
        "height": 360,
        "data": {"values": rows},
        "layer": layers,
    }


def _row(i: int, values: Mapping[str, Any], result: Mapping[str, Any], axes: Chosen) -> dict[str, Any] | None:
    x, y = (_at(axis, values, result) for axis in (axes.x, axes.y))
    if x is None or y is None:
        return None
    by = "" if axes.by is None else said(values[axes.by])
    apart, rest = (", ".join(said(values[name]) for name in names) for names in (axes.apart, axes.rest))
    return {"x": x, "y": y, "by": by, "apart": apart, "rest": rest, "index": i}


def _at(axis: str | Measure, values: Mapping[str, Any], result: Mapping[str, Any]) -> Any:
    if isinstance(axis, Measure):
        return axis.of(result)
    value = values[axis]
    return said(value) if isinstance(value, bool) else value


def said(value: Any) -> str:
    """A swept value in words."""
    if isinstance(value, bool):
        return ("off", "on")[value]
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _lines(rows: list[dict[str, Any]], base: dict[str, Any], axes: Chosen) -> list[dict[str, Any]]:
    """Points joined in the order of the sweep."""
    apart: dict[str, Any] = {"order": {"field": "index"}}
    if axes.apart:
        scale = {"domain": list(dict.fromkeys(row["apart"] for row in rows))}
        legend = {"symbolType": "stroke", "symbolSize": 400}
        apart["strokeDash"] = _nominal("apart", _words(axes.apart, axes)) | {"scale": scale, "legend": legend}
    line = {"mark": {"type": "line", "strokeWidth": 1.8}, "encoding": {**base, **apart}}
    dots = {"mark": {"type": "point", "filled": True, "size": 45}, "encoding": {**base, "tooltip": _tooltip()}}
    return [line, dots, *([] if axes.apart == axes.rest else _labels(rows, base))]


def _frontier(rows: list[dict[str, Any]], base: dict[str, Any]) -> list[dict[str, Any]]:
    """Filled points are on the frontier of all; a line joins the frontier of each colour."""
    _mark_fronts(rows)
    layers = [
        {
            "transform": [{"filter": "datum.own"}],
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {**base, "order": {"field": "x"}},
        },
        {
            "transform": [{"filter": "datum.front"}],
            "mark": {"type": "point", "size": 70, "filled": True, "opacity": 1},
            "encoding": {**base, "tooltip": _tooltip()},
        },
        {
            "transform": [{"filter": "!datum.front"}],
            "mark": {"type": "point", "size": 70, "strokeWidth": 1.8, "fill": "white"},
            "encoding": {**base, "tooltip": _tooltip()},
        },
    ]
    return [*layers, *_labels([row for row in rows if row["own"]], base)]


def _labels(rows: list[dict[str, Any]], base: dict[str, Any]) -> list[dict[str, Any]]:
    """None where they would lie over each other."""
    if len(rows) > MOST_LABELS:
        return []
    encoding = {"x": base["x"], "y": base["y"], "text": {"field": "rest"}}
    text = {"type": "text", "dx": 8, "dy": -8, "align": "left", "fontSize": 9, "color": "#555"}
    return [{"data": {"values": rows}, "mark": text, "encoding": encoding}]


def _mark_fronts(rows: list[dict[str, Any]]) -> None:
    front = pareto([(row["x"], row["y"]) for row in rows])
    for by in {row["by"] for row in rows}:
        own = [row for row in rows if row["by"] == by]
        best = pareto([(row["x"], row["y"]) for row in own])
        for i, row in enumerate(own):
            row["own"] = i in best
    for i, row in enumerate(rows):
        row["front"] = i in front


def _axis(field: str, axis: str | Measure, rows: Sequence[Mapping[str, Any]], axes: Chosen) -> dict[str, Any]:
    title = axis.label if isinstance(axis, Measure) else _words([axis], axes)
    values = [row[field] for row in rows]
    if any(isinstance(value, str) for value in values):
        return {"field": field, "type": "ordinal", "sort": None, "title": title, "axis": {"labelAngle": 0}}
    wide = bool(values) and 0 < WIDE * min(values) < max(values)
    scale = {"type": "log", "nice": False, "padding": 10} if wide else {"zero": True}
    share = isinstance(axis, Measure) and axis.unit == "%"
    return {
        "field": field,
        "type": "quantitative",
        "title": axis.title if isinstance(axis, Measure) and share else title,
        "scale": scale,
        "axis": {"format": "%" if share else "~s", "tickCount": 6},
    }


def _colour(title: str, order: Sequence[str]) -> dict[str, Any]:
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(order))]
    return _nominal("by", title) | {"scale": {"domain": list(order), "range": colours}}


def _nominal(field: str, title: str) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "title": title}


def _tooltip() -> list[dict[str, str]]:
    return [{"field": field} for field in ("by", "rest", "x", "y")]


def _title(axes: Chosen) -> str:
    across, up = (axis.title if isinstance(axis, Measure) else axis.replace("-", " ") for axis in (axes.x, axes.y))
    return (
        f"{across[:1].upper()}{across[1:]} against {up}"
        if axes.is_frontier
        else f"{up[:1].upper()}{up[1:]} by {across}"
    )


def _subtitle(points: Sequence[Point], axes: Chosen) -> list[str]:
    """What is the same for all."""
    same = [
        f"{name.replace('_', ' ')} {found.pop()}"
        for name in ("workload", "model", "chip", "chips", "cost_model")
        if len(found := {str(result.get(name)) for _, result in points}) == 1
    ]
    labels = [f"labels: {_words(axes.rest, axes)}"] if axes.rest and axes.apart != axes.rest else []
    filled = ["filled: on the frontier of all, right and up is better"] if axes.is_frontier else []
    return ["; ".join(same), *(["; ".join(filled + labels)] if filled + labels else [])]


def _words(names: Sequence[str], axes: Chosen) -> str:
    units = {name: f" ({unit})" for name, unit in axes.units.items()}
    return ", ".join(name.replace("-", " ") + units.get(name, "") for name in names)
