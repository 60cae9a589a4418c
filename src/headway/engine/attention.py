"""Attention over paged K and V. Tokens of a step are first all written, then all rows read."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from headway.engine.batch import GroupBatch, LongRow, ShortRows, for_heads
from headway.engine.kv_cache import LayerCache


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: LayerCache,
    batch: GroupBatch,
    block_size: int,
) -> torch.Tensor:
    """q [T, heads, head_dim], k and v [T, kv_heads, head_dim], already rotated; gives [T, heads * head_dim]."""
    cache.write(batch.write_places(cache.heads, block_size), k, v)
    if len(batch.short) == 1 and batch.short[0].tokens is None:
        return _attend_short(q, cache, batch.short[0], batch.num_blocks)
    out = q.new_empty(q.shape[0], q.shape[1] * q.shape[2])
    for rows in batch.short:
        out[rows.tokens] = _attend_short(q[rows.tokens], cache, rows, batch.num_blocks)
    for row in batch.long:
        _attend_long(q[row.first : row.last], cache, row, batch.num_blocks, out[row.first : row.last])
    return out


def _attend_short(q: torch.Tensor, cache: LayerCache, rows: ShortRows, num_blocks: int) -> torch.Tensor:
    """q [B * C, heads, head_dim]. The query heads that share a KV head are that head's queries: nothing is repeated."""
    total, heads, dim = q.shape
    group, count = heads // cache.heads, rows.count
    rows_count = total // count
    places, mask = rows.expanded(cache.heads, group, num_blocks)
    k, v = cache.gather(places, cache.heads * rows_count)
    q = q.view(rows_count, count, cache.heads, group, dim).permute(2, 0, 3, 1, 4)
    q = q.reshape(cache.heads * rows_count, group * count, dim)
    weights = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=dim**-0.5).softmax(-1)
    out = torch.bmm(weights, v).view(cache.heads, rows_count, group, count, dim)
    return out.permute(1, 3, 0, 2, 4).reshape(total, heads * dim)


def _attend_long(q: torch.Tensor, cache: LayerCache, row: LongRow, num_blocks: int, out: torch.Tensor) -> None:
    """q [C, heads, head_dim] of one row; writes out [C, heads * head_dim]."""
    count, heads, dim = q.shape
    group = heads // cache.heads
    k, v = cache.gather(for_heads(row.blocks, cache.heads, num_blocks), cache.heads)
    k = k[:, None].expand(cache.heads, group, -1, dim)
    v = v[:, None].expand(cache.heads, group, -1, dim)
    q = q.transpose(0, 1).view(cache.heads, group, count, dim)
    for piece in row.pieces:
        keys = slice(piece.key_first, piece.key_last)
        part = scaled_dot_product_attention(
            q[:, :, piece.first : piece.last], k[:, :, keys], v[:, :, keys], attn_mask=piece.mask
        )
        out[piece.first : piece.last] = part.permute(2, 0, 1, 3).reshape(-1, heads * dim)
