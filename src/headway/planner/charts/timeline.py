"""The journey of one request as bars on one clock."""

from __future__ import annotations

from typing import Any

from headway.planner.charts.base import Rows, amount, category, chart, layer
from headway.planner.journey import JourneyReport


def timeline_chart(report: JourneyReport, title: str | None = None) -> dict[str, Any]:
    rows: Rows = [
        {"stage": s.name, "place": s.place, "start_s": s.start_s, "end_s": s.start_s + s.duration_s}
        for s in report.stages
    ]
    order = [stage.name for stage in report.stages]
    bars = layer(
        rows,
        {"type": "bar", "minWidth": 1},
        x=amount("start_s", "seconds since the user pressed enter"),
        x2={"field": "end_s"},
        y=category("stage", None, sort=order),
        color=category("place", "where"),
    )
    subtitle = (f"first token seen after {report.ttft_s:.3g} s, the last after {report.total_s:.3g} s",)
    return chart(title or f"One request to {report.model}", subtitle, [bars], height={"step": 22})
