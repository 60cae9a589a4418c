"""What all charts share: the schema, prefill's and decode's colours, axes whose title says the unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""A name of the format; nothing is fetched from it."""
PREFILL, DECODE, LIMIT = "#e07b39", "#2b6cb0", "#b91c1c"
TITLE_PIXELS = 1200
"""What is longer ends in an ellipsis: else a picture gets as wide as its title."""
Rows = list[dict[str, Any]]


def chart(title: str, subtitle: Sequence[str], layers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "title": {"text": title, "subtitle": list(subtitle), "limit": TITLE_PIXELS},
        "width": 640,
        "height": 400,
        "layer": layers,
        **more,
    }


def layer(rows: Rows, mark: dict[str, Any], **encoding: Any) -> dict[str, Any]:
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def amount(field: str, title: str, log: bool = False, **more: Any) -> dict[str, Any]:
    """An axis or channel of numbers. Prefixes are SI's: 10^9 is G."""
    scale = {"type": "log"} if log else {}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {**scale, **more.pop("scale", {})},
        "axis": {"format": "~s", "tickCount": 6, **more.pop("axis", {})},
        **more,
    }


def category(field: str, title: str | None, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "title": title, **more}
