"""The roofline, both axes logarithmic: a roof for each rate that a chip multiplies at, a point an operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.planner.charts.base import DECODE, PREFILL, Rows, amount, category, chart, layer
from headway.planner.step import RooflineReport

LOW, HIGH = 0.1, 1e5
"""FLOPs a byte; the axis reaches further where an operation does."""


def roofline_chart(reports: Sequence[RooflineReport], title: str | None = None) -> dict[str, Any]:
    """Reports of one model on several systems stand side by side in one picture."""
    first = reports[0]
    x = amount("intensity_flops_per_byte", "arithmetic intensity (FLOP/byte)", log=True)
    y = amount("flops_per_s", "FLOP/s of one chip", log=True)
    chips = category("chip", "chip")
    layers = [
        layer(_roofs(reports), {"type": "line"}, x=x, y=y, strokeDash=chips, detail=category("ridge", None)),
        layer(
            _points(reports),
            {"type": "point", "filled": True, "opacity": 0.8},
            x=x,
            y=y,
            shape=chips,
            color=category("step", "step", scale={"domain": ["prefill", "decode"], "range": [PREFILL, DECODE]}),
            size={
                "field": "share",
                "type": "quantitative",
                "title": "share of the step",
                "scale": {"range": [20, 400]},
            },
            tooltip=[{"field": f} for f in ("chip", "step", "operation", "intensity_flops_per_byte", "flops_per_s")],
        ),
    ]
    subtitle = (
        f"decode: {first.batch} x {first.context_tokens:,} tokens; prefill: one prompt of {first.context_tokens:,}; "
        f"weights {first.weight_format}, KV {first.kv_format}",
        "each operation at its floor, its activations' traffic counted; a roof for each rate that one multiplies at",
    )
    return chart(title or f"Roofline of {first.model}", subtitle, layers)


def _roofs(reports: Sequence[RooflineReport]) -> Rows:
    rows: Rows = []
    for r in reports:
        seen = [op for step in (r.decode, r.prefill) for op in step.ops if op.flops]
        reached = [op.intensity_flops_per_byte for op in seen]
        bytes_per_s = r.rate_flops_per_s / r.ridge_flops_per_byte
        for ridge in sorted({op.ridge_flops_per_byte for op in seen}):
            for x in (min(LOW, *reached), ridge, max(HIGH, *reached)):
                row = {"chip": r.chip, "ridge": ridge, "intensity_flops_per_byte": x}
                rows.append({**row, "flops_per_s": min(x, ridge) * bytes_per_s})
    return rows


def _points(reports: Sequence[RooflineReport]) -> Rows:
    return [
        {
            "chip": r.chip,
            "step": step.kind,
            "operation": op.name,
            "intensity_flops_per_byte": op.intensity_flops_per_byte,
            "flops_per_s": op.flops / op.floor_s,
            "share": op.floor_s / sum(o.floor_s for o in step.ops),
        }
        for r in reports
        for step in (r.prefill, r.decode)
        for op in step.ops
        if op.flops
    ]
