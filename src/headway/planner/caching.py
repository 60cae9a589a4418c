"""What keeping prefixes for some time is worth, by the calls of a trace."""

from __future__ import annotations

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.spans import Ints


def hit_rate(idle_s: FloatArray, reused_tokens: Ints, time_to_live_s: float) -> float:
    """Share of the tokens that a call has in common with the one before it that are still held when it comes.

    `idle_s` [calls]: from the end of the call before. A prefix is dropped when nobody asked for it so long.
    """
    total = int(reused_tokens.sum())
    return float(reused_tokens[idle_s <= time_to_live_s].sum()) / total if total else 0.0
