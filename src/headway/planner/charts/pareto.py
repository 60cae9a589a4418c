"""Interactivity against throughput a chip: a staircase a system, a vertical line at the SLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.planner.charts.base import LIMIT, Rows, amount, category, chart, layer
from headway.planner.pareto import ParetoReport


def pareto_chart(reports: Sequence[ParetoReport], title: str | None = None) -> dict[str, Any]:
    """A report a system, or one of several systems together. Right and up are better."""
    x = amount("interactivity_tokens_per_s", "interactivity (tokens/s a user)", log=True)
    y = amount("throughput_tokens_per_s_per_chip", "throughput (tokens/s a chip)", log=True)
    systems = category("system", "system")
    rows = _rows(reports)
    layers = [
        # The best that reaches a speed holds for every lower one: the step goes down after the point.
        layer(rows, {"type": "line", "interpolate": "step-before"}, x=x, y=y, color=systems),
        layer(
            rows,
            {"type": "point", "filled": True, "size": 30},
            x=x,
            y=y,
            color=systems,
            shape={"field": "kind", "type": "nominal", "title": "prompts"},
            tooltip=[
                {"field": f} for f in ("system", "kind", "chips", "batch", "weight_format", x["field"], y["field"])
            ],
        ),
    ]
    first = reports[0]
    if first.slo_tokens_per_s is not None:
        line: Rows = [{"interactivity_tokens_per_s": first.slo_tokens_per_s, "slo": "SLO"}]
        layers.append(layer(line, {"type": "rule", "color": LIMIT, "strokeDash": [6, 4], "size": 2}, x=x))
        # Beyond all points the line may stand at the edge: its name stays inside.
        is_beyond = all(row["interactivity_tokens_per_s"] < first.slo_tokens_per_s for row in rows)
        side = {"align": "right", "dx": -5} if is_beyond else {"align": "left", "dx": 5}
        text = {"type": "text", "color": LIMIT, "y": 8, **side}
        layers.append(layer(line, text, x=x, text={"field": "slo"}))
    asked = f"decode at {first.context_tokens:,} tokens"
    if first.prompt_tokens is not None:
        asked = f"{first.prompt_tokens:,} tokens in, {first.output_tokens:,} out"
    subtitle = (
        f"{asked}; {'every cut, batch and format that fits; right and up is better' if rows else 'nothing fits'}",
        "times are those of fitted engines" if first.cost_model == "calibrated" else "times are floors",
    )
    return chart(title or f"Pareto frontier of {first.model}", subtitle, layers)


def _rows(reports: Sequence[ParetoReport]) -> Rows:
    return [
        {
            "system": c.system,
            "kind": c.kind,
            "chips": c.chips,
            "batch": c.batch,
            "weight_format": c.weight_format,
            "interactivity_tokens_per_s": c.interactivity_tokens_per_s,
            "throughput_tokens_per_s_per_chip": c.throughput_tokens_per_s_per_chip,
        }
        for report in reports
        for c in report.frontier
    ]
