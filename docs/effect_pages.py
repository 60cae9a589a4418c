"""An effect's page: its table and its texts are filled in from the figures, its chart is drawn beside it.

In a page the lines after `<!-- table -->` are the figures, and the paragraph after `<!-- text … -->` is that text with
each `{name:format}` replaced by the fact of that name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.planner.charts.base import SCHEMA, amount, category
from headway.report.charts import COLOURS
from headway.report.rendering import svg

PAGES = Path(__file__).parent / "effects"
WIDTH, HEIGHT = 300, 240
_TABLE = re.compile(r"(<!-- table -->\n)(?:\|[^\n]*\n)*")
_TEXT = re.compile(r"(<!-- text\n(.*?) -->\n)(?:[^\n]+\n)*", re.DOTALL)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """Of the table: `scale` times the row's figure, in a format of Python's."""

    key: str
    title: str
    format: str = ""
    scale: float = 1.0

    def cell(self, row: Row) -> str:
        value = row.get(self.key)
        if value is None:
            return "–"
        return format(value * self.scale if self.scale != 1.0 else value, self.format)


@dataclass(frozen=True, slots=True)
class Effect:
    rows: Sequence[Row]
    columns: Sequence[Column]
    panels: Sequence[Row]
    """Vega-Lite, side by side."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the page's text tells."""


def line(
    rows: Sequence[Row],
    x: tuple[str, str],
    y: tuple[str, str],
    color: str | None = None,
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> Row:
    """A panel: (field, title) of both axes; a line for each value of `color`, in the rows' order."""
    points = [row | {"nth": i} for i, row in enumerate(rows) if row[x[0]] is not None and row[y[0]] is not None]
    encoding: Row = {"x": _axis(x, log_x), "y": _axis(y, log_y), "order": {"field": "nth"}}
    if color is not None:
        encoding["color"] = _colour(color, list(dict.fromkeys(str(row[color]) for row in rows)))
    mark = {"type": "line", "point": True, "strokeWidth": 1.5}
    return {"width": WIDTH, "height": HEIGHT, "data": {"values": points}, "mark": mark, "encoding": encoding}


def bars(rows: Sequence[Row], x: str, y: tuple[str, str], color: str | None = None) -> Row:
    """A panel: a bar a value of `x`, or a group of them with one for each value of `color`."""
    names = list(dict.fromkeys(str(row[color or x]) for row in rows))
    encoding: Row = {
        "x": category(x, x if color else None, sort=None, axis={"labelAngle": 0, "labelLimit": 90}),
        "y": amount(*y),
        "color": _colour(color or x, names, legend=color is not None),
    }
    if color is not None:
        encoding["xOffset"] = {"field": color, "sort": names}
    return {"width": WIDTH, "height": HEIGHT, "data": {"values": list(rows)}, "mark": "bar", "encoding": encoding}


def _axis(named: tuple[str, str], log: bool) -> Row:
    return amount(*named, log=log, scale={"nice": False} if log else {})


def _colour(key: str, names: list[str], *, legend: bool = True) -> Row:
    scale = {"domain": names, "range": [COLOURS[i % len(COLOURS)] for i in range(len(names))]}
    shown = {"title": None, "orient": "bottom", "columns": 2, "labelLimit": 300} if legend else None
    return category(key, None, scale=scale, legend=shown)


def table(effect: Effect) -> str:
    columns = effect.columns
    head = [[c.title for c in columns], ["---" if c is columns[0] else "---:" for c in columns]]
    lines = [*head, *([column.cell(row) for column in columns] for row in effect.rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def filled(page: str, effect: Effect) -> str:
    """The page with the effect's figures."""
    page = _TABLE.sub(lambda match: match[1] + table(effect), page)
    return _TEXT.sub(lambda match: f"{match[1]}{match[2].format(**effect.facts)}\n", page)


def drawn(effect: Effect) -> str:
    """SVG. Panels whose colours mean the same have one legend."""
    meanings = {str(panel["encoding"]["color"]) for panel in effect.panels if "color" in panel["encoding"]}
    scales = {"color": "shared" if len(meanings) < 2 else "independent"}
    return svg({"$schema": SCHEMA, "hconcat": list(effect.panels), "resolve": {"scale": scales}})


def write(name: str, effect: Effect) -> None:
    page = PAGES / f"{name}.md"
    page.write_text(filled(page.read_text(), effect))
    (PAGES / f"{name}.svg").write_text(drawn(effect))


def is_fresh(name: str, effect: Effect) -> bool:
    """The page; how letters are spaced in a chart is the machine's."""
    page = (PAGES / f"{name}.md").read_text()
    return filled(page, effect) == page
