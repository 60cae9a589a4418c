"""Who sees whom: a query sees keys up to its own position, and not farther back than the window."""

from __future__ import annotations

import torch


def short_mask(queries: torch.Tensor, keys: torch.Tensor, window: int, dtype: torch.dtype) -> torch.Tensor:
    """0 where a query sees a key and -inf elsewhere, [B, C, L]. Positions: queries [B, C], keys [B, L]."""
    distance = queries[:, :, None] - keys[:, None, :]
    hidden = distance < 0
    if window:
        hidden |= distance >= window
    mask = torch.zeros(hidden.shape, dtype=dtype, device=queries.device)
    return mask.masked_fill_(hidden, float("-inf"))


class BandMask:
    """The mask of up to `max_queries` consecutive queries, whatever their position: one matrix, cut to size.

    Column c of the matrix stands for the key at distance `reach` - c before the first query.
    """

    def __init__(self, max_queries: int, window: int, dtype: torch.dtype, device: torch.device) -> None:
        self._max_queries, self._window = max_queries, window
        self._dtype, self._device = dtype, device
        self._reach = 0
        self._grow(window - 1 if window else 0)

    def view(self, queries: int, keys_before: int) -> torch.Tensor:
        """[queries, keys_before + queries]: keys from `keys_before` before the first query to the last query's own."""
        if keys_before > self._reach:
            self._grow(max(keys_before, 2 * self._reach))
        first = self._reach - keys_before
        view = self._matrix[:queries, first : self._reach + queries]
        # Accelerators' fused kernels want rows that start at aligned addresses.
        return view if self._device.type == "cpu" else view.contiguous()

    def _grow(self, reach: int) -> None:
        queries = torch.arange(self._max_queries, device=self._device)[None]
        keys = torch.arange(-reach, self._max_queries, device=self._device)[None]
        self._matrix = short_mask(queries, keys, self._window, self._dtype)[0]
        self._reach = reach
