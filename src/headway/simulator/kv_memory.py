"""The real number of KV blocks: what a replica's chips have left beside the weights, by cache group."""

from __future__ import annotations

from collections import defaultdict

from headway.arithmetic.cache import CacheTerm, cache_terms
from headway.arithmetic.formats import Precision
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism, weight_bytes_per_chip
from headway.arithmetic.shape import ModelShape
from headway.catalog import Chip
from headway.scheduler.config import CacheGroup

USABLE = 0.9
"""Of a chip's memory, for weights and cache; the rest is for activations and the runtime."""


def cache_group_blocks(
    model: ModelShape,
    chip: Chip,
    precision: Precision,
    cut: Parallelism,
    block_size: int,
    max_running: int,
    usable: float = USABLE,
    num_blocks: int | None = None,
) -> tuple[CacheGroup, ...]:
    """Windows and states get what `max_running` sequences need, but at most half of the room if there are growing
    layers; those get the rest, or `num_blocks`. Raises ShapeError if the weights leave no room for a block.
    """
    weights_bytes = weight_bytes_per_chip(model, precision, cut)
    room_bytes = chip.hbm_bytes * usable - weights_bytes
    grouped: dict[tuple[str, int], list[CacheTerm]] = defaultdict(list)
    for term in cache_terms(model, precision):
        grouped[_group_of(term)].append(term)
    block_bytes = {key: sum(_block_bytes(t, cut, block_size) for t in terms) for key, terms in grouped.items()}
    blocks = _share_out(room_bytes, block_bytes, block_size, max_running)
    if num_blocks is not None and ("full", 0) in blocks:
        blocks["full", 0] = num_blocks
    if not blocks or min(blocks.values()) < 1:
        raise ShapeError(
            f"weights take {weights_bytes / 1e9:.4g} GB a chip of the {chip.hbm_bytes * usable / 1e9:.4g} GB usable on "
            f"{chip.name}: no room for a KV block; cut the model over more chips (--tensor), store it in fewer bits "
            "(--weights), or take a --system with more memory"
        )
    return tuple(_cache_group(key, count) for key, count in blocks.items())


def _group_of(term: CacheTerm) -> tuple[str, int]:
    if not term.every:
        return "state", 0
    return ("window", term.limit) if term.limit else ("full", 0)


def _cache_group(key: tuple[str, int], num_blocks: int) -> CacheGroup:
    kind, window = key
    if kind == "window":
        return CacheGroup("window", num_blocks, window)
    return CacheGroup("full" if kind == "full" else "state", num_blocks)


def _block_bytes(term: CacheTerm, cut: Parallelism, block_size: int) -> float:
    """On the fullest chip. A state's block is the state of one sequence."""
    heads = min(cut.tensor, term.kv_heads)
    if not term.every:
        return term.size_bytes(1) / heads
    return term.layers * term.values * term.format.bits_per_value / 8 * block_size / term.every / heads


def _share_out(
    room_bytes: float, block_bytes: dict[tuple[str, int], float], block_size: int, max_running: int
) -> dict[tuple[str, int], int]:
    """The full group first in order, as the first group is the one whose prefixes are compared."""
    bounded = {key: _blocks_a_sequence(key, block_size) for key in block_bytes if key[0] != "full"}
    sequence_bytes = sum(count * block_bytes[key] for key, count in bounded.items())
    grows = ("full", 0) in block_bytes
    sequences = max_running
    if sequence_bytes:
        sequences = min(max_running, int(room_bytes * (0.5 if grows else 1.0) / sequence_bytes))
    blocks: dict[tuple[str, int], int] = {}
    if grows:
        left_bytes = room_bytes - sequences * sequence_bytes
        blocks["full", 0] = int(left_bytes / block_bytes["full", 0])
    return blocks | {key: sequences * count for key, count in sorted(bounded.items())}


def _blocks_a_sequence(key: tuple[str, int], block_size: int) -> int:
    """A window may begin inside a block and end inside one; prompts in chunks need a little more, now and then."""
    kind, window = key
    return 1 if kind == "state" else -(-window // block_size) + 2
