"""What fills a chip's memory, and how the cache grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import weight_bytes
from headway.arithmetic.shape import ModelShape
from headway.planner.charts.base import LIMIT, Rows, amount, category, chart, layer
from headway.planner.memory import MemoryReport

POINTS = 80
_COLOURS = {
    "attention": "#1f4e8c",
    "feed forward": "#4f8fd0",
    "shared experts": "#7fb3e6",
    "experts": "#a9cdf0",
    "router": "#6b7a8f",
    "norms": "#94a3b8",
    "tables": "#334155",
    "KV": "#e07b39",
    "kept free": "#cbd5e1",
    "unused": "#eef2f6",
}


def memory_chart(reports: Sequence[MemoryReport], title: str | None = None) -> dict[str, Any]:
    """A stack a report; a rule at the chip's memory."""
    rows: Rows = []
    for name, report in zip(_names(reports), reports, strict=True):
        parts = {**report.weight_bytes_by_part, "KV": report.kv_bytes, "kept free": report.kept_free_bytes}
        if report.unused_bytes > 0:
            parts["unused"] = report.unused_bytes
        rows += [
            {"system": name, "part": part.replace("_", " "), "bytes": size, "order": i}
            for i, (part, size) in enumerate(parts.items())
        ]
        rows[-1]["memory_bytes"] = report.memory_bytes
    names = list(dict.fromkeys(row["part"] for row in rows))
    x = category("system", None, axis={"labelAngle": 0}, sort=None)
    y = amount("bytes", "bytes of one chip")
    color = category("part", "part", sort=names, scale={"domain": names, "range": [_COLOURS[n] for n in names]})
    order = {"field": "order", "type": "ordinal"}
    first = reports[0]
    limits: Rows = [{"system": row["system"], "bytes": row["memory_bytes"]} for row in rows if "memory_bytes" in row]
    layers = [
        layer(rows, {"type": "bar"}, x=x, y=y, color=color, order=order),
        layer(limits, {"type": "tick", "color": LIMIT, "thickness": 3, "width": 90}, x=x, y=y),
    ]
    subtitle = (
        f"{first.batch} x {first.context_tokens:,} tokens; weights {first.weight_format}, "
        f"KV {first.kv_format}; the rule is the chip's memory",
    )
    return chart(title or f"Memory of {first.model}", subtitle, layers, width={"step": 150})


def _names(reports: Sequence[MemoryReport]) -> list[str]:
    """Chips by their own name; with that of the system where two have such chips."""
    chips = [f"{report.chips} x {report.chip}" for report in reports]
    return [
        name if chips.count(name) == 1 else f"{name} ({report.system})"
        for name, report in zip(chips, reports, strict=True)
    ]


def kv_chart(
    models: Sequence[tuple[str, ModelShape]], precision: Precision, most_tokens: int, title: str | None = None
) -> dict[str, Any]:
    """Cache of one sequence against its length; a broken line at each model's weights."""
    lengths = np.unique(np.rint(np.geomspace(1, max(2, most_tokens), POINTS)).astype(np.int64)).tolist()
    rows: Rows = [
        {"model": name, "context_tokens": n, "bytes": size}
        for name, shape in models
        for n in lengths
        if (size := kv_bytes(shape, n, precision))
    ]
    weights: Rows = [{"model": name, "bytes": weight_bytes(shape, precision)} for name, shape in models]
    color = category("model", "model")
    y = amount("bytes", "bytes of one sequence", log=True)
    layers = [
        layer(rows, {"type": "line"}, x=amount("context_tokens", "context (tokens)", log=True), y=y, color=color),
        layer(weights, {"type": "rule", "strokeDash": [5, 4]}, y=y, color=color),
    ]
    subtitle = (f"KV {precision.kv.name}; broken lines: weights in {precision.weights.name}",)
    return chart(title or "KV cache against context", subtitle, layers)
