"""Slower memories for KV below the device, and the thread that copies between them and it."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch

from headway.engine.arena import Arena, aligned_bytes
from headway.engine.errors import ModelError
from headway.engine.kv_cache import KVCache, LayerCache
from headway.engine.memory import free_bytes
from headway.engine.settings import MEMORY, KVTier
from headway.scheduler.contract import DEVICE, Load, Save, StepPlan

LayerStore = tuple[torch.Tensor, torch.Tensor]
"""K and V of one layer, each [blocks, heads, block_size * head_dim]."""


class TierStore:
    """Blocks of one tier. Each holds K and V of one block of tokens, of every layer."""

    def __init__(self, cache: KVCache, num_blocks: int, fileno: int = -1) -> None:
        """In memory, or in the open file `fileno`, which must be long enough."""
        arena = Arena(store_bytes(cache, num_blocks), torch.device("cpu"), fileno=fileno)
        shapes = _shapes(cache, num_blocks)
        self.layers: list[LayerStore] = [(arena.take(s, cache.dtype), arena.take(s, cache.dtype)) for s in shapes]


def _shapes(cache: KVCache, num_blocks: int) -> list[tuple[int, int, int]]:
    return [(num_blocks, layer.heads, cache.block_size * layer.head_dim) for layer in cache.layers]


def store_bytes(cache: KVCache, num_blocks: int) -> int:
    return sum(2 * aligned_bytes(shape, cache.dtype) for shape in _shapes(cache, num_blocks))


def block_bytes(cache: KVCache) -> int:
    """Of one block of tokens in a tier."""
    return store_bytes(cache, 1)


def open_store(cache: KVCache, tier: KVTier) -> TierStore:
    """Raises ModelError where the tier is too small for a block, or larger than its memory or disk."""
    num_blocks = tier.size_bytes // block_bytes(cache)
    if not num_blocks:
        raise ModelError(f"kv_tier {tier.name}: {tier.size_bytes} bytes hold no block of {block_bytes(cache)} bytes")
    if tier.name == MEMORY:
        free = free_bytes(torch.device("cpu"))
        if tier.size_bytes > free:
            raise ModelError(f"kv_tier {tier.name}: {tier.size_bytes} bytes are more than the {free} that are free")
        return TierStore(cache, num_blocks)
    try:
        with tempfile.TemporaryFile(dir=tier.directory, prefix=f"headway-{tier.name}-") as file:
            # Reserved now: a mapped file that finds its disk full later would end the process.
            os.posix_fallocate(file.fileno(), 0, store_bytes(cache, num_blocks))
            return TierStore(cache, num_blocks, file.fileno())
    except OSError as error:
        raise ModelError(
            f"kv_tier {tier.name}: {tier.size_bytes} bytes in {tier.directory}: {error.strerror}"
        ) from None


class KVTiers:
    """Carries out a plan's loads and saves, in order. Until one is told by `take_arrived`, the brain leaves both of its
    sides alone, so copying needs no lock.
    """

    def __init__(self, cache: KVCache, stores: Mapping[str, TierStore]) -> None:
        self._cache = cache
        self._stores = stores
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headway-kv")
        self._under_way: deque[tuple[int, Future[None]]] = deque()

    def start(self, plan: StepPlan) -> None:
        """What the plan's blocks hold was computed by plans that have been committed."""
        for load in plan.loads:
            self._under_way.append((load.transfer, self._thread.submit(self._load, load)))
        for save in plan.saves:
            self._under_way.append((save.transfer, self._thread.submit(self._save, save)))

    @property
    def is_busy(self) -> bool:
        return bool(self._under_way)

    def take_arrived(self, wait_s: float = 0.0) -> list[tuple[int, bool]]:
        """(transfer, whether all is there) of those that have ended; waits for the oldest."""
        if wait_s and self._under_way:
            wait([self._under_way[0][1]], timeout=wait_s)
        arrived = []
        while self._under_way and self._under_way[0][1].done():
            transfer, future = self._under_way.popleft()
            arrived.append((transfer, future.exception() is None))
        return arrived

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _load(self, load: Load) -> None:
        sources = torch.from_numpy(load.sources)
        blocks = [torch.from_numpy(of_group) for of_group in load.blocks]
        for group, layer, (k, v) in self._layers(load.tier):
            layer.fill(blocks[group], k[sources], v[sources])

    def _save(self, save: Save) -> None:
        targets = torch.from_numpy(save.targets)
        blocks = [torch.from_numpy(of_group) for of_group in save.blocks]
        for i, (group, layer, (k, v)) in enumerate(self._layers(save.tier)):
            if save.source == DEVICE:
                k[targets], v[targets] = layer.blocks(blocks[group])
            else:
                k[targets], v[targets] = (part[blocks[0]] for part in self._stores[save.source].layers[i])

    def _layers(self, tier: str) -> Iterator[tuple[int, LayerCache, LayerStore]]:
        """The cache group, what the device has and what the tier has, layer by layer."""
        cache = self._cache
        for i, (layer, store) in enumerate(zip(cache.layers, self._stores[tier].layers, strict=True)):
            yield cache.group_of[i], layer, store
