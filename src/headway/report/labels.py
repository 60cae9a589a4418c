"""Where the labels of points go, so that none lies over another or over a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

FONT_SIZE = 9
GAP = 9.0
"""From a point's middle to its label, in pixels."""
_CHARACTER = 0.6 * FONT_SIZE
"""Its width: more than most have."""
_HEIGHT = FONT_SIZE + 2.0
_POINT = 6.0
"""Half of a point's side."""
PLACES: dict[str, dict[str, Any]] = {
    "above": {"dy": -GAP, "baseline": "bottom", "align": "center"},
    "below": {"dy": GAP, "baseline": "top", "align": "center"},
    "right": {"dx": GAP, "baseline": "middle", "align": "left"},
    "left": {"dx": -GAP, "baseline": "middle", "align": "right"},
}
"""Vega-Lite's text mark of each, the first choice first."""


class Box(NamedTuple):
    """In pixels; y grows upwards."""

    left: float
    right: float
    bottom: float
    top: float

    def meets(self, other: Box) -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.top <= other.bottom or other.top <= self.bottom)


def placed(points: Sequence[tuple[float, float]], labels: Sequence[str], width: float) -> list[str | None]:
    """A place for each label of a point at (x, y) pixels in a chart so wide; None: there is no room."""
    taken = [Box(x - _POINT, x + _POINT, y - _POINT, y + _POINT) for x, y in points]
    found: list[str | None] = []
    for (x, y), label in zip(points, labels, strict=True):
        for place in PLACES:
            box = _box(place, x, y, label)
            if box.left >= 0 and box.right <= width and box.bottom >= 0 and not any(map(box.meets, taken)):
                taken.append(box)
                found.append(place)
                break
        else:
            found.append(None)
    return found


def _box(place: str, x: float, y: float, label: str) -> Box:
    wide = _CHARACTER * len(label)
    if place in ("right", "left"):
        left = x + GAP if place == "right" else x - GAP - wide
        return Box(left, left + wide, y - _HEIGHT / 2, y + _HEIGHT / 2)
    bottom = y + GAP if place == "above" else y - GAP - _HEIGHT
    return Box(x - wide / 2, x + wide / 2, bottom, bottom + _HEIGHT)
