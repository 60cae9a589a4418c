"""Keys and values in blocks, for each layer; layers that grow alike share block numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from headway.arithmetic.shape import Layer, ModelShape
from headway.engine.arena import Arena, aligned_bytes


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """A cache group: its layers' indices, and the window in tokens (0 for full attention)."""

    kind: Literal["full", "window"]
    window: int
    layers: tuple[int, ...]


def cache_groups(shape: ModelShape) -> tuple[LayerGroup, ...]:
    """Groups in the order of the plan's `blocks`: full attention first, then windows in the order they appear."""
    windows = list(dict.fromkeys(layer.attention.window for layer in shape.layers))
    windows.sort(key=lambda window: window > 0)
    return tuple(
        LayerGroup(
            kind="window" if window else "full",
            window=window,
            layers=tuple(i for i, layer in enumerate(shape.layers) if layer.attention.window == window),
        )
        for window in windows
    )


class LayerCache:
    """K and V of one layer, each [heads * num_blocks, block_size * head_dim].

    Head-major, so that the rows gathered for a batch come out as [heads, rows, tokens, head_dim], which the attention's
    matrix products take as they are.
    """

    def __init__(self, arena: Arena, layer: Layer, num_blocks: int, block_size: int, dtype: torch.dtype) -> None:
        self.heads = layer.attention.num_kv_heads
        self.head_dim = layer.attention.head_dim
        self.key_bytes = self.heads * self.head_dim * dtype.itemsize
        size = _cache_shape(layer, num_blocks, block_size)
        self._k, self._v = arena.take(size, dtype), arena.take(size, dtype)
        self._k_tokens, self._v_tokens = self._k.view(-1, self.head_dim), self._v.view(-1, self.head_dim)

    def write(self, where: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """k, v [T, heads, head_dim] go to token places `where` [T * heads]."""
        self._k_tokens.index_copy_(0, where, k.reshape(-1, self.head_dim))
        self._v_tokens.index_copy_(0, where, v.reshape(-1, self.head_dim))

    def gather(self, blocks: torch.Tensor, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of `blocks` [heads * rows * n] as [batch, tokens, head_dim]; batch is heads * rows."""
        k = self._k.index_select(0, blocks).view(batch, -1, self.head_dim)
        v = self._v.index_select(0, blocks).view(batch, -1, self.head_dim)
        return k, v

    def blocks(self, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of these blocks, each [n, heads, block_size * head_dim]."""
        numbers = numbers.to(self._k.device)
        k, v = (part.view(self.heads, -1, part.shape[1])[:, numbers] for part in (self._k, self._v))
        return k.transpose(0, 1), v.transpose(0, 1)

    def fill(self, numbers: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """The reverse."""
        numbers = numbers.to(self._k.device)
        for part, given in ((self._k, k), (self._v, v)):
            part.view(self.heads, -1, part.shape[1])[:, numbers] = given.transpose(0, 1).to(part.device)

    def erase(self, where: torch.Tensor) -> None:
        self._k_tokens.index_fill_(0, where, 0)
        self._v_tokens.index_fill_(0, where, 0)


class KVCache:
    """Every layer's cache. Always finite: a place that is masked out still enters a product with weight zero."""

    def __init__(
        self,
        shape: ModelShape,
        num_blocks: tuple[int, ...],
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`num_blocks` for each group of `cache_groups(shape)`."""
        self.groups = cache_groups(shape)
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.dtype = dtype
        blocks_of = {i: n for group, n in zip(self.groups, num_blocks, strict=True) for i in group.layers}
        sizes = (_cache_shape(layer, blocks_of[i], block_size) for i, layer in enumerate(shape.layers))
        arena = Arena(sum(2 * aligned_bytes(size, dtype) for size in sizes), device)
        self.layers = tuple(
            LayerCache(arena, layer, blocks_of[i], block_size, dtype) for i, layer in enumerate(shape.layers)
        )
        self.group_of = {i: g for g, group in enumerate(self.groups) for i in group.layers}


def _cache_shape(layer: Layer, num_blocks: int, block_size: int) -> tuple[int, int]:
    return layer.attention.num_kv_heads * num_blocks, block_size * layer.attention.head_dim
