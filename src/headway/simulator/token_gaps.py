"""Inter-token latencies of millions of tokens in a few kilobytes: a histogram with 64 buckets an octave."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_PARTS = 64


class TokenGaps:
    """Positive integer nanoseconds, each with a count. A quantile is off by at most 1/64 of its value."""

    def __init__(self) -> None:
        self._counts = np.zeros(64 * _PARTS, np.int64)
        self.num = 0
        self.total_ns = 0

    def add(self, times_ns: Ints, rows: int = 1) -> None:
        """Between tokens at these times, which `rows` rows had each."""
        if len(times_ns) < 2:
            return
        gaps_ns = times_ns[1:] - times_ns[:-1]
        least, most = _bucket(int(gaps_ns.min())), _bucket(int(gaps_ns.max()))
        if least == most:
            self._counts[least] += len(gaps_ns) * rows
        else:
            mantissa, exponent = np.frexp(gaps_ns.astype(np.float64))
            buckets = exponent.astype(np.int64) * _PARTS + ((mantissa - 0.5) * (2 * _PARTS)).astype(np.int64)
            self._counts[least : most + 1] += np.bincount(buckets - least, minlength=most + 1 - least) * rows
        self.num += len(gaps_ns) * rows
        self.total_ns += int(times_ns[-1] - times_ns[0]) * rows

    def add_one(self, gap_ns: int, times: int) -> None:
        """One gap, `times` times over."""
        self._counts[_bucket(gap_ns)] += times
        self.num += times
        self.total_ns += gap_ns * times

    def merge(self, other: TokenGaps) -> None:
        self._counts += other._counts
        self.num += other.num
        self.total_ns += other.total_ns

    def quantile_s(self, q: float) -> float | None:
        """The upper edge of the bucket in which it lies; None if there are no gaps."""
        if not self.num:
            return None
        bucket = int(np.searchsorted(np.cumsum(self._counts), max(1, int(np.ceil(q * self.num)))))
        exponent, part = divmod(bucket, _PARTS)
        return float(np.ldexp(0.5 + (part + 1) / (2 * _PARTS), exponent)) / 1e9

    def mean_s(self) -> float | None:
        return self.total_ns / self.num / 1e9 if self.num else None


def _bucket(gap_ns: int) -> int:
    mantissa, exponent = math.frexp(gap_ns)
    return exponent * _PARTS + int((mantissa - 0.5) * (2 * _PARTS))
