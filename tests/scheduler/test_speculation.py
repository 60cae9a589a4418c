from __future__ import annotations

import numpy as np
import pytest

from headway.scheduler.config import Speculation
from headway.scheduler.speculation import draft, draft_depth


@pytest.mark.parametrize(
    ("tokens", "depth", "expected"),
    [
        ([1, 2, 3, 9, 1, 2, 3], 2, [9, 1]),
        ([1, 2, 3, 9, 5, 2, 3, 8, 1, 2, 3], 1, [9]),  # the longer match wins over the later
        ([7, 3, 8, 6, 3, 4, 5, 3], 2, [4, 5]),  # of equal matches, the latest
        ([1, 2, 3, 4], 4, []),
        ([5, 5, 5, 5, 5], 3, [5]),  # what follows the latest match is all there is
        ([5], 3, []),
        ([], 3, []),
    ],
)
def test_drafts_are_what_followed_last_time(tokens: list[int], depth: int, expected: list[int]) -> None:
    assert draft(Speculation(), np.array(tokens, np.int32), depth).tolist() == expected


def test_the_search_is_bounded() -> None:
    tokens = np.array([1, 2, 3, 9, *range(100, 150), 1, 2, 3], np.int32)
    assert draft(Speculation(lookback=1000), tokens, 1).tolist() == [9]
    assert draft(Speculation(lookback=50), tokens, 1).tolist() == []


def test_depth_follows_the_load() -> None:
    policy = Speculation(max_depth=4, max_step_drafts=32)
    assert [draft_depth(policy, n, 2048) for n in (0, 1, 8, 9, 16, 32, 33, 1000)] == [4, 4, 4, 3, 2, 1, 0, 0]
    assert [draft_depth(policy, n, 20) for n in (1, 4, 8, 10, 20)] == [4, 4, 1, 1, 0]
