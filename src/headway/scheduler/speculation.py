"""Drafts by prompt lookup: what followed the last time the row ended in the same n tokens.

A. Saxena, "Prompt Lookup Decoding", 2023. Drafts are verified in the same step, so they change speed, never text.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.scheduler.config import Speculation
from headway.scheduler.contract import Ints, ints

_NOTHING = ints()


def draft_depth(policy: Speculation, num_rows: int, max_step_tokens: int) -> int:
    """Depth for each row: the step's drafts are shared out, so it falls as the load grows; all stay in the budget."""
    return min(policy.max_depth, min(policy.max_step_drafts, max_step_tokens - num_rows) // max(1, num_rows))


def draft(policy: Speculation, tokens: npt.NDArray[np.int32], depth: int) -> Ints:
    """Up to `depth` tokens likely to follow `tokens`; the longest n-gram that occurs before wins, then the latest."""
    recent = tokens[-policy.lookback :]
    for n in range(min(policy.ngram, len(recent) - 1), 0, -1):
        tail = recent[-n:]
        starts = np.flatnonzero(recent[: len(recent) - n] == tail[0])
        for offset in range(1, n):
            starts = starts[recent[starts + offset] == tail[offset]]
        if starts.size:
            follows = int(starts[-1]) + n
            return recent[follows : follows + depth].astype(np.int64)
    return _NOTHING
