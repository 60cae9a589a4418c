"""Labels of a chart's points lie neither over each other nor over points."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headway.report.labels import Box, _box, placed

PIXELS = st.floats(0, 400)
LABELS = st.text("concurrency 0123456789", min_size=1, max_size=20)


def test_the_first_choice_is_above_and_a_neighbour_moves_it() -> None:
    assert placed([(200, 100)], ["concurrency 4"], 420) == ["above"]
    assert placed([(200, 100), (200, 115)], ["concurrency 4", "concurrency 8"], 420) == ["below", "above"]
    assert placed([(200, 100), (230, 100)], ["concurrency 4", "concurrency 8"], 420) == ["above", "below"]


def test_at_an_edge_it_goes_inwards_and_where_no_room_is_left_there_is_none() -> None:
    assert placed([(2, 100)], ["concurrency 4"], 420) == ["right"]
    assert placed([(418, 100)], ["concurrency 4"], 420) == ["left"]
    assert placed([(200, 12), (200, 27)], ["concurrency 4", "concurrency 8"], 420) == ["right", "above"]
    assert placed([(200, 100)] * 6, ["x" * 20] * 6, 420) == ["above", "below", "right", "left", None, None]


@given(st.lists(st.tuples(PIXELS, PIXELS, LABELS), max_size=12))
def test_nothing_lies_over_anything(points: list[tuple[float, float, str]]) -> None:
    at, labels = [(x, y) for x, y, _ in points], [label for *_, label in points]
    boxes = [
        _box(place, x, y, label)
        for (x, y), label, place in zip(at, labels, placed(at, labels, 400), strict=True)
        if place is not None
    ]
    dots = [Box(x - 6, x + 6, y - 6, y + 6) for x, y in at]
    assert not any(a.meets(b) for a, b in combinations(boxes, 2))
    assert not any(box.meets(dot) for box in boxes for dot in dots)
    assert all(box.left >= 0 and box.right <= 400 and box.bottom >= 0 for box in boxes)
