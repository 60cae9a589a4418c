"""One decoder for every family: built layer by layer from a ModelShape, run over a step's tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from headway.arithmetic.shape import Attention, FeedForward, Layer, ModelShape, Rope
from headway.engine.attention import attend
from headway.engine.batch import LONG_QUERIES, GroupBatch, GroupBatcher, Rows
from headway.engine.kv_cache import KVCache
from headway.engine.masks import BandMask
from headway.engine.rope import Rotation, inverse_frequencies, rotation
from headway.engine.weights import LayerWeights, ModelWeights
from headway.scheduler.contract import Ints


@dataclass(frozen=True, slots=True)
class StepBatch:
    """T tokens of R rows."""

    token_ids: torch.Tensor
    """[T]."""
    groups: tuple[GroupBatch, ...]
    rotations: dict[tuple[Rope, int], Rotation]


class Model:
    """The network with its weights and KV cache."""

    def __init__(self, shape: ModelShape, weights: ModelWeights, cache: KVCache) -> None:
        self.shape, self.weights, self.cache = shape, weights, cache
        self.device, self.dtype = weights.embedding.device, weights.embedding.dtype
        ropes = {(layer.attention.rope, layer.attention.head_dim) for layer in shape.layers}
        self._inv_freq = {key: inverse_frequencies(*key).to(self.device) for key in ropes}
        self._batchers = tuple(
            GroupBatcher(
                group=group,
                num_blocks=num_blocks,
                block_size=cache.block_size,
                band=BandMask(LONG_QUERIES, group.window, self.dtype, self.device),
                key_bytes=max(cache.layers[i].key_bytes for i in group.layers),
                dtype=self.dtype,
                device=self.device,
            )
            for group, num_blocks in zip(cache.groups, cache.num_blocks, strict=True)
        )

    def batch(self, rows: Rows, token_ids: Ints, tables: tuple[Ints, ...]) -> StepBatch:
        """Everything about a step that its layers share. `tables` as in `BlockTables`."""
        positions = torch.from_numpy(rows.positions()).to(self.device)
        return StepBatch(
            token_ids=torch.from_numpy(token_ids).to(self.device),
            groups=tuple(b.build(rows, table) for b, table in zip(self._batchers, tables, strict=True)),
            rotations={key: rotation(positions, inv, self.dtype) for key, inv in self._inv_freq.items()},
        )

    def forward(self, batch: StepBatch) -> torch.Tensor:
        """Writes the tokens' K and V; gives the hidden state of each token, [T, hidden], before the final norm."""
        x = functional.embedding(batch.token_ids, self.weights.embedding)
        for index, layer in enumerate(self.shape.layers):
            x = self._layer(x, index, layer, batch)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[N, hidden] to [N, vocab] in fp32."""
        normed = _norm(hidden, self.weights.norm, self.shape.norm_eps)
        return self.weights.head(normed).float()

    def erase(self, batch: StepBatch, tokens: Ints) -> None:
        """Zeroes the K and V of some of the step's tokens [N], in every layer."""
        chosen = torch.from_numpy(tokens).to(self.device)
        for index, cache in enumerate(self.cache.layers):
            places = batch.groups[self.cache.group_of[index]].write_places(cache.heads, self.cache.block_size)
            cache.erase(places.view(-1, cache.heads)[chosen].flatten())

    def _layer(self, x: torch.Tensor, index: int, layer: Layer, batch: StepBatch) -> torch.Tensor:
        weights, eps = self.weights.layers[index], self.shape.norm_eps
        x = x + self._attention(_norm(x, weights.attention_norm, eps), index, layer.attention, batch)
        return x + _feed_forward(_norm(x, weights.feed_forward_norm, eps), layer.feed_forward, weights)

    def _attention(self, x: torch.Tensor, index: int, a: Attention, batch: StepBatch) -> torch.Tensor:
        weights = self.weights.layers[index]
        qkv = weights.qkv(x).view(-1, a.num_heads + 2 * a.num_kv_heads, a.head_dim)
        qk, v = qkv[:, : a.num_heads + a.num_kv_heads], qkv[:, a.num_heads + a.num_kv_heads :]
        if weights.q_norm is not None and weights.k_norm is not None:
            q = _norm(qk[:, : a.num_heads], weights.q_norm, self.shape.norm_eps)
            k = _norm(qk[:, a.num_heads :], weights.k_norm, self.shape.norm_eps)
            qk = torch.cat((q, k), 1)
        qk = batch.rotations[a.rope, a.head_dim].apply(qk)
        group = batch.groups[self.cache.group_of[index]]
        out = attend(
            qk[:, : a.num_heads], qk[:, a.num_heads :], v, self.cache.layers[index], group, self.cache.block_size
        )
        return weights.output(out)


def _feed_forward(x: torch.Tensor, f: FeedForward, weights: LayerWeights) -> torch.Tensor:
    gate_up = weights.gate_up(x)
    gate, up = gate_up[:, : f.inner], gate_up[:, f.inner :]
    active = functional.silu(gate) if f.activation == "silu" else functional.gelu(gate, approximate="tanh")
    return weights.down(active * up)


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return functional.rms_norm(x, (weight.shape[0],), weight, eps)


def finite_tokens(hidden: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[T] whether each token's hidden state is finite; infinities and NaN survive a sum."""
    finite: np.ndarray[tuple[int], np.dtype[np.bool_]] = hidden.float().sum(-1).isfinite().cpu().numpy()
    return finite
