"""The real number of KV blocks: what a replica's chips have left beside the weights, by cache group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from headway.arithmetic.cache import CacheTerm, cache_terms
from headway.arithmetic.formats import Precision
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism, fullest_stage, kv_shards, weight_bytes_by_part
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
    max_step_tokens: int,
    usable: float = USABLE,
    num_blocks: int | None = None,
    elsewhere: Collection[str] = (),
) -> tuple[CacheGroup, ...]:
    """Windows and states get what `max_running` sequences and the prompts of a step need, but at most half of the room
    if there are growing layers; those get the rest, or `num_blocks`. Parts of the weights that are `elsewhere` take no
    room.

    Where sequences are dealt out to `cut.data` groups of chips, the blocks are those of all groups together: that no
    group runs short before the others is assumed. Raises ShapeError if the weights leave no room for a block, however
    many are asked for.
    """
    parts = weight_bytes_by_part(model, precision, cut)
    weights_bytes = sum(size for part, size in parts.items() if part not in elsewhere)
    room_bytes = chip.hbm_bytes * usable - weights_bytes
    grouped: dict[tuple[str, int], list[CacheTerm]] = defaultdict(list)
    for term in cache_terms(model, precision):
        grouped[_group_of(term)].append(term)
    stage = fullest_stage(model, cut)
    block_bytes = {key: stage * sum(_block_bytes(t, cut, block_size) for t in terms) for key, terms in grouped.items()}
    group = _share_out(room_bytes, block_bytes, block_size, -(-max_running // cut.data), max_step_tokens)
    blocks = {key: count * cut.data for key, count in group.items()}
    if num_blocks is not None and ("full", 0) in blocks:
        blocks["full", 0] = num_blocks
    if not blocks or min(blocks.values()) < 1 or room_bytes <= 0:
        raise ShapeError(
            f"weights take {weights_bytes / 1e9:.4g} GB a chip of the {chip.hbm_bytes * usable / 1e9:.4g} GB usable on "
            f"{chip.name}: no room for a KV block; cut the model over more chips (--tensor), store it in fewer bits "
            "(--weights), or take a --system with more memory"
        )
    return tuple(_cache_group(key, count) for key, count in blocks.items())


def device_block_bytes(model: ModelShape, precision: Precision, block_size: int) -> float:
    """Of one block of the first cache group, all of its layers, once, on however many chips they lie."""
    terms = cache_terms(model, precision)
    first = min((_group_of(term) for term in terms), key=_order)
    return sum(_block_bytes(term, Parallelism(), block_size) for term in terms if _group_of(term) == first)


def _order(key: tuple[str, int]) -> tuple[bool, tuple[str, int]]:
    """The full group first, as the first group is the one whose prefixes are compared."""
    return key[0] != "full", key


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
    """All layers of it, on each of the chips that share it. A state's block is the state of one sequence."""
    heads = kv_shards(cut.tensor, term.kv_heads)
    if not term.every:
        return term.size_bytes(1) / heads
    entries = block_size / term.every / cut.context
    return term.layers * term.values * term.format.bits_per_value / 8 * entries / heads


def _share_out(
    room_bytes: float, block_bytes: dict[tuple[str, int], float], block_size: int, max_running: int, chunk: int
) -> dict[tuple[str, int], int]:
    """Windows have room for the `chunk` tokens of a step as well, which have not left them yet."""
    bounded = {key: _blocks_a_sequence(key, block_size) for key in block_bytes if key[0] != "full"}
    passing = {key: chunk // block_size if key[0] == "window" else 0 for key in bounded}
    sequence_bytes = sum(count * block_bytes[key] for key, count in bounded.items())
    passing_bytes = sum(count * block_bytes[key] for key, count in passing.items())
    grows = ("full", 0) in block_bytes
    sequences = max_running
    if sequence_bytes:
        room = room_bytes * (0.5 if grows else 1.0) - passing_bytes
        sequences = max(0, min(max_running, int(room / sequence_bytes)))
    blocks: dict[tuple[str, int], int] = {}
    if grows:
        left_bytes = room_bytes - sequences * sequence_bytes - passing_bytes
        blocks["full", 0] = int(left_bytes / block_bytes["full", 0])
    blocks |= {key: sequences and sequences * count + passing[key] for key, count in bounded.items()}
    return {key: blocks[key] for key in sorted(blocks, key=_order)}


def _blocks_a_sequence(key: tuple[str, int], block_size: int) -> int:
    """A window may begin inside a block and end inside one."""
    kind, window = key
    return 1 if kind == "state" else -(-window // block_size) + 2
