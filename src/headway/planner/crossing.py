"""Where one quantity overtakes another as a count grows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headway.arithmetic.spans import Ints

Overtakes = Callable[[Ints], np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]
POINTS = 512


def first_crossing(overtakes: Overtakes, most: int) -> int | None:
    """The smallest count from 1 to `most` found by a ladder of points and a bisection between two of them; None if no
    point of the ladder has it. `overtakes` maps counts [N] to truth [N].
    """
    ladder = np.unique(np.rint(np.geomspace(1, most, POINTS)).astype(np.int64))
    reached = overtakes(ladder)
    if not reached.any():
        return None
    at = int(np.argmax(reached))
    low, high = int(ladder[at - 1]) if at else 0, int(ladder[at])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if overtakes(np.array([middle]))[0] else (middle, high)
    return high
