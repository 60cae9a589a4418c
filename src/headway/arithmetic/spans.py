"""Which cached entries a query sees, in closed form for whole arrays of rows. All counts are exact integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """The last `window` tokens (0: all; `chunked`: those of the same chunk), one entry for each `every` tokens, and of
    those at most `topk` (0: all). A position sees itself. `window` and (`every`, `topk`) are not combined.
    """

    window: int = 0
    chunked: bool = False
    every: int = 1
    topk: int = 0

    def stored(self, length: Ints) -> Ints:
        """Entries that a sequence of `length` tokens keeps room for."""
        return np.minimum(length, self.window) if self.window else length // self.every

    def writes(self, start: Ints, count: Ints) -> Ints:
        """Entries that tokens start .. start + count complete."""
        return (start + count) // self.every - start // self.every

    def pairs(self, start: Ints, count: Ints) -> Ints:
        """Sum over the row's tokens of the entries that each attends."""
        return self._pairs_before(start + count) - self._pairs_before(start)

    def reads(self, start: Ints, count: Ints) -> Ints:
        """Entries that at least one token of the row attends: what a kernel must read at least once."""
        end = start + count
        entries = end // self.every - self.first_visible(start)
        if self.topk:
            entries = np.minimum(entries, count * self.topk)
        return np.where(count > 0, entries, 0)

    def first_visible(self, start: Ints) -> Ints:
        """First entry that the token at `start` sees."""
        if self.chunked:
            return np.asarray(start // self.window * self.window)
        return np.maximum(0, start - self.window + 1) if self.window else np.zeros_like(start)

    def _pairs_before(self, n: Ints) -> Ints:
        """Sum of attended entries over positions 0 .. n."""
        if self.chunked:
            chunks, rest = np.divmod(n, self.window)
            return chunks * _triangle(self.window) + _triangle(rest)
        if self.window:
            grown = np.minimum(n, self.window)
            return _triangle(grown) + (n - grown) * self.window
        grown = np.minimum(n, self.every * self.topk) if self.topk else n
        whole, rest = np.divmod(grown, self.every)
        # floor(m / every) summed over m = 1 .. grown, then `topk` for each later position.
        total = self.every * _triangle(whole - 1) + whole * (rest + 1) + (n - grown) * self.topk
        return np.asarray(total, np.int64)


def _triangle(n: Ints | int) -> Ints:
    return np.asarray(n * (n + 1) // 2, np.int64)
