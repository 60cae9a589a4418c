"""The header X-Request-Deadline: a request that is still queued at that time is not worth running."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from headway.server.errors import ApiError, expired

HEADER = "X-Request-Deadline"
NS_PER_S = 1_000_000_000
LONGEST_WAIT_NS = 366 * 24 * 3600 * NS_PER_S
"""A deadline further away is as good as this one, whose nanoseconds fit in every integer that they pass through."""
_UNIX_SECONDS = re.compile(r"[0-9]{1,15}(\.[0-9]{0,9})?")


def deadline_of(headers: Mapping[str, str]) -> float | None:
    """In unix seconds, written in decimals. Raises ApiError: 400 for what is no time, 504 when it has passed."""
    value = headers.get(HEADER)
    if value is None:
        return None
    if not _UNIX_SECONDS.fullmatch(value):
        raise ApiError(400, f"the header {HEADER} must be a time in unix seconds, as 1735689600.5", param=HEADER)
    deadline_s = float(value)
    timeout_ns(deadline_s)
    return deadline_s


def timeout_ns(deadline_s: float) -> int:
    """What is left. Raises ApiError (504) if nothing is."""
    left_ns = int((deadline_s - time.time()) * NS_PER_S)
    if left_ns <= 0:
        raise expired()
    return min(left_ns, LONGEST_WAIT_NS)
