"""What one step's rows look like to the attention: computed once a step, read by every layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from headway.engine.kv_cache import LayerGroup
from headway.engine.masks import BandMask, short_mask
from headway.scheduler.contract import Ints

SHORT_TOKENS = 8
"""Rows with at most this many tokens are attended together, longer ones one by one."""
LONG_QUERIES = 256
"""A long row is attended in pieces of this many tokens, so that no piece reads much beyond its diagonal."""
MAX_GATHERED_BYTES = 16 * 2**20
"""Keys gathered at a time for short rows, and as many bytes of values: on a CPU, what was copied is then still in its
cache when it is read. An accelerator takes larger bites."""
ACCELERATOR_GATHERED_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a step. All arrays are [R]."""

    slots: Ints
    starts: Ints
    counts: Ints

    @property
    def offsets(self) -> Ints:
        """Place of each row's first token among the step's tokens."""
        return np.cumsum(self.counts) - self.counts

    def positions(self) -> Ints:
        """[T] position of each token in its sequence."""
        return np.arange(int(self.counts.sum())) + np.repeat(self.starts - self.offsets, self.counts)


@dataclass(frozen=True, slots=True)
class ShortRows:
    """B rows of C tokens each, padded to n blocks."""

    count: int
    """C."""
    tokens: torch.Tensor | None
    """[B * C] their places among the step's tokens; None when they are all of them, in order."""
    blocks: torch.Tensor
    """[B * n]."""
    mask: torch.Tensor
    """[B, C, n * block_size], added to the scores."""
    by_heads: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    def expanded(self, kv_heads: int, group: int, num_blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cache rows to gather [kv_heads * B * n], and the mask [kv_heads * B, 1 or group * C, tokens]."""
        key = (kv_heads, group)
        if key not in self.by_heads:
            mask = self.mask if self.count == 1 else self.mask.repeat(1, group, 1)
            self.by_heads[key] = (for_heads(self.blocks, kv_heads, num_blocks), mask.repeat(kv_heads, 1, 1))
        return self.by_heads[key]


@dataclass(frozen=True, slots=True)
class Piece:
    """Queries [first, last) of a long row see keys [key_first, key_last) of its gathered blocks, through a mask."""

    first: int
    last: int
    key_first: int
    key_last: int
    mask: torch.Tensor
    """[last - first, key_last - key_first], added to the scores."""


@dataclass(frozen=True, slots=True)
class LongRow:
    first: int
    """Place of its first token among the step's tokens."""
    last: int
    blocks: torch.Tensor
    """[n]."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """One cache group's view of the step."""

    num_blocks: int
    places: torch.Tensor
    """[T] where each token's K and V go: block * block_size + offset."""
    short: tuple[ShortRows, ...]
    long: tuple[LongRow, ...]
    by_heads: dict[int, torch.Tensor] = field(default_factory=dict)

    def write_places(self, kv_heads: int, block_size: int) -> torch.Tensor:
        """[T * kv_heads], token by token."""
        if kv_heads not in self.by_heads:
            heads = torch.arange(kv_heads, device=self.places.device) * (self.num_blocks * block_size)
            self.by_heads[kv_heads] = (self.places[:, None] + heads).flatten()
        return self.by_heads[kv_heads]


def for_heads(blocks: torch.Tensor, kv_heads: int, num_blocks: int) -> torch.Tensor:
    """Cache rows of `blocks` for every head, head by head."""
    heads = torch.arange(kv_heads, device=blocks.device) * num_blocks
    return (heads[:, None] + blocks).flatten()


@dataclass(frozen=True, slots=True)
class GroupBatcher:
    """Builds a group's batch from its block table."""

    group: LayerGroup
    num_blocks: int
    block_size: int
    band: BandMask
    key_bytes: int
    """Of one token, in the layer where it is largest."""
    dtype: torch.dtype
    device: torch.device

    def build(self, rows: Rows, table: Ints) -> GroupBatch:
        """`table` is [slots, width]."""
        positions = rows.positions()
        places = table[np.repeat(rows.slots, rows.counts), positions // self.block_size] * self.block_size
        places += positions % self.block_size
        short = rows.counts <= SHORT_TOKENS
        return GroupBatch(
            num_blocks=self.num_blocks,
            places=self._tensor(places),
            short=tuple(self._short(rows, chosen, table) for chosen in self._buckets(rows, np.flatnonzero(short))),
            long=tuple(self._long(rows, int(row), table) for row in np.flatnonzero(~short)),
        )

    def _first_blocks(self, starts: Ints) -> Ints:
        """The first block that a row's first token sees."""
        if not self.group.window:
            return np.zeros_like(starts)
        return np.maximum(starts - self.group.window + 1, 0) // self.block_size

    def _last_blocks(self, rows: Rows) -> Ints:
        return (rows.starts + rows.counts - 1) // self.block_size

    def _buckets(self, rows: Rows, chosen: Ints) -> Iterator[Ints]:
        """Rows of equal count and like length (within a power of two), so that one long row does not pad all."""
        lengths = (self._last_blocks(rows) - self._first_blocks(rows.starts) + 1)[chosen]
        keys = np.ceil(np.log2(lengths)).astype(np.int64) * (SHORT_TOKENS + 1) + rows.counts[chosen]
        limit = MAX_GATHERED_BYTES if self.device.type == "cpu" else ACCELERATOR_GATHERED_BYTES
        for key in np.unique(keys):
            members = chosen[keys == key]
            width = int(lengths[keys == key].max()) * self.block_size
            size = max(1, limit // (width * self.key_bytes))
            for first in range(0, len(members), size):
                yield members[first : first + size]

    def _short(self, rows: Rows, chosen: Ints, table: Ints) -> ShortRows:
        first, last = self._first_blocks(rows.starts)[chosen], self._last_blocks(rows)[chosen]
        columns = first[:, None] + np.arange(int((last - first).max()) + 1)
        blocks = table[rows.slots[chosen][:, None], np.minimum(columns, last[:, None])]
        count = int(rows.counts[chosen[0]])
        keys = (columns[:, :, None] * self.block_size + np.arange(self.block_size)).reshape(len(chosen), -1)
        queries = rows.starts[chosen][:, None] + np.arange(count)
        tokens = (rows.offsets[chosen][:, None] + np.arange(count)).flatten()
        return ShortRows(
            count=count,
            tokens=None if len(chosen) == len(rows.slots) else self._tensor(tokens),
            blocks=self._tensor(blocks.flatten()),
            mask=short_mask(self._tensor(queries), self._tensor(keys), self.group.window, self.dtype),
        )

    def _long(self, rows: Rows, row: int, table: Ints) -> LongRow:
        start, count, offset = (int(values[row]) for values in (rows.starts, rows.counts, rows.offsets))
        first_block = int(self._first_blocks(rows.starts)[row])
        blocks = table[rows.slots[row], first_block : int(self._last_blocks(rows)[row]) + 1]
        return LongRow(
            first=offset,
            last=offset + count,
            blocks=self._tensor(np.array(blocks)),
            pieces=tuple(self._pieces(start, count, first_block * self.block_size)),
        )

    def _pieces(self, start: int, count: int, gathered_from: int) -> Iterator[Piece]:
        for first in range(0, count, LONG_QUERIES):
            last = min(first + LONG_QUERIES, count)
            query = start + first
            key = max(0, query - self.group.window + 1) if self.group.window else 0
            yield Piece(
                first=first,
                last=last,
                key_first=key - gathered_from,
                key_last=start + last - gathered_from,
                mask=self.band.view(queries=last - first, keys_before=query - key),
            )

    def _tensor(self, values: Ints) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device)
