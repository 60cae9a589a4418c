"""The blocks of all cache groups: which prefix is here, which blocks a row holds, what becomes findable."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

from headway.scheduler.block_pool import BlockPool
from headway.scheduler.config import CacheGroup, SchedulerConfig
from headway.scheduler.contract import Ints, TableChange, ints
from headway.scheduler.rows import Rows
from headway.scheduler.sequence import Sequence

NO_CHANGE = TableChange(ints(), ints(), ints())


class Hit(msgspec.Struct, frozen=True):
    """A prefix that is valid here: `num_blocks` blocks long. Of group g, entries `first[g]` on are needed and held."""

    num_blocks: int
    first: tuple[int, ...]
    blocks: tuple[list[int], ...]


class KVCache:
    """Positional groups (full, window) have an entry for every `block_size` tokens; a state group has one a sequence.

    A prefix can be reused only if every group has what it needs of it. A state is not kept at block borders, so with
    a state group nothing can be reused.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.groups = config.groups
        self.pools = [BlockPool(group.num_blocks, config.kv_ttl_ns) for group in config.groups]
        self.is_positional = [group.kind != "state" for group in config.groups]
        self._positional = [pool for pool, grows in zip(self.pools, self.is_positional, strict=True) if grows]
        self._states = [pool for pool, grows in zip(self.pools, self.is_positional, strict=True) if not grows]
        self.has_windows = any(group.window for group in config.groups)
        self.can_reuse = config.prefix_caching and all(self.is_positional)
        self._block_tokens = np.zeros((self.pools[0].num_blocks, config.block_size), np.int32)
        """Token ids of the first group's findable blocks, compared on a hit."""
        self._no_changes = tuple(NO_CHANGE for _ in self.groups)
        self._no_hit = Hit(0, tuple(0 for _ in self.groups), tuple([] for _ in self.groups))
        self._tells_tables = not config.late_blocks
        self._changes: list[list[tuple[int, int, list[int]]]] = [[] for _ in config.groups]
        """By group: slot, first entry, blocks."""

    def at(self, now_ns: int) -> None:
        for pool in self.pools:
            pool.at(now_ns)

    def used(self, keys: Iterable[bytes]) -> None:
        """Now."""
        for pool in self.pools:
            pool.touch(keys)

    # What is here

    def has(self, key: bytes) -> bool:
        """Whether every group has this block."""
        return all(pool.find(key) is not None for pool in self.pools)

    def find_prefix(self, sequence: Sequence, max_blocks: int) -> Hit:
        """The longest reusable prefix of at most `max_blocks` blocks."""
        found = self._verified(sequence, self._longest_run(sequence.keys, max_blocks)) if self.can_reuse else 0
        if not found:
            return self._no_hit
        first = tuple(self.first_needed(group, found * self.config.block_size) for group in self.groups)
        blocks = tuple(
            [block for key in sequence.keys[start:found] if (block := pool.find(key)) is not None]
            for pool, start in zip(self.pools, first, strict=True)
        )
        return Hit(found, first, blocks)

    def first_needed(self, group: CacheGroup, position: int) -> int:
        """The first table entry that a token at `position` or later can see."""
        return max(0, position - group.window + 1) // self.config.block_size if group.window else 0

    def _longest_run(self, keys: list[bytes], max_blocks: int) -> int:
        count = min(len(keys), max_blocks)
        for group, pool in zip(self.groups, self.pools, strict=True):
            if not group.window:
                count = next((i for i in range(count) if pool.find(keys[i]) is None), count)
        while count and (gap := self._last_gap(keys, count)) is not None:
            count = gap
        return count

    def _last_gap(self, keys: list[bytes], count: int) -> int | None:
        """The last block below `count` that a window group needs and lacks."""
        gaps = [
            index
            for group, pool in zip(self.groups, self.pools, strict=True)
            if group.window
            for index in range(self.first_needed(group, count * self.config.block_size), count)
            if pool.find(keys[index]) is None
        ]
        return max(gaps, default=None)

    def _verified(self, sequence: Sequence, count: int) -> int:
        """`count`, or 0 if a block's tokens are not the sequence's: a hash collision must not serve another's text."""
        if not self.config.token_ids or not count:
            return count
        size = self.config.block_size
        start = self.first_needed(self.groups[0], count * size)
        blocks = [self.pools[0].find(key) for key in sequence.keys[start:count]]
        stored = self._block_tokens[np.array(blocks, np.int64)]
        wanted = sequence.tokens[start * size : count * size].reshape(-1, size)
        differing = np.flatnonzero((stored != wanted).any(axis=1))
        return 0 if differing.size else count

    def num_evictable(self, hit: Hit) -> list[int]:
        """Of a hit's blocks, how many count as available until they are held, by group."""
        return [pool.num_evictable(blocks) for pool, blocks in zip(self.pools, hit.blocks, strict=True)]

    def hold(self, hit: Hit) -> None:
        for pool, blocks in zip(self.pools, hit.blocks, strict=True):
            pool.hold(blocks)

    # What a row holds

    def adopt(self, rows: Rows, sequence: Sequence, hit: Hit) -> None:
        """Gives a hit's blocks (already held) and one state block to the row that `sequence` just took."""
        slot = sequence.slot
        for g, blocks in enumerate(hit.blocks):
            rows.first_block[g][slot] = hit.first[g]
            if self.is_positional[g]:
                self._enter(rows, g, slot, hit.first[g], blocks)
            else:
                self._enter(rows, g, slot, 0, self.pools[g].allocate(1))

    def _enter(self, rows: Rows, g: int, slot: int, start: int, blocks: list[int]) -> None:
        if blocks:
            rows.tables[g][slot, start : start + len(blocks)] = blocks
            if self._tells_tables:
                self._changes[g].append((slot, start, blocks))

    def grow(self, rows: Rows, slot: int, num_tokens: int) -> None:
        """Blocks for the row's first `num_tokens` positions. The caller has checked that there are enough."""
        held = int(rows.capacity[slot])
        if num_tokens > held:
            self._grow(rows, slot, held, num_tokens)

    def grow_rows(self, rows: Rows, slots: Ints, num_tokens: Ints, over_ns: int = 0) -> None:
        """The same for the first `num_tokens[i]` positions of each row. `over_ns`: for how long, up to now, rows have
        gone on; blocks were in use since they were reached, on the average for half of it.
        """
        before = [(pool.num_held, pool.num_cached) for pool in self.pools]
        held = rows.capacity[slots]
        short = (num_tokens > held).nonzero()[0]
        for row in zip(slots[short].tolist(), held[short].tolist(), num_tokens[short].tolist(), strict=True):
            self._grow(rows, *row)
        for pool, (held_before, cached_before) in zip(self.pools, before, strict=True):
            pool.held_block_ns += (pool.num_held - held_before) * over_ns // 2
            pool.idle_block_ns -= (cached_before - pool.num_cached) * over_ns // 2

    def _grow(self, rows: Rows, slot: int, held: int, num_tokens: int) -> None:
        size = self.config.block_size
        more = self.entries(num_tokens - held)
        for g, pool in enumerate(self.pools):
            if self.is_positional[g]:
                self._enter(rows, g, slot, held // size, pool.allocate(more))
        rows.capacity[slot] = held + more * size

    def take_changes(self) -> tuple[TableChange, ...]:
        """What was entered in the block tables since the last call."""
        if not self._tells_tables:
            return self._no_changes
        taken = tuple(_table_change(changes) for changes in self._changes)
        self._changes = [[] for _ in self.groups]
        return taken

    def held(self, rows: Rows, slot: int) -> list[list[int]]:
        """The blocks that the row holds, by group, in order."""
        end = int(rows.capacity[slot]) // self.config.block_size
        return [
            rows.tables[g][slot, rows.first_block[g][slot] : end if self.is_positional[g] else 1].tolist()
            for g in range(len(self.pools))
        ]

    def drop_behind_windows(self, rows: Rows, slots: Ints) -> None:
        """Releases the blocks that no uncommitted token of these rows can see."""
        for g, group in enumerate(self.groups):
            if not group.window:
                continue
            ends = np.maximum(0, rows.committed[slots] - group.window + 1) // self.config.block_size
            starts = rows.first_block[g][slots]
            for i in np.flatnonzero(ends > starts).tolist():
                self.pools[g].release(rows.tables[g][slots[i], starts[i] : ends[i]].tolist())
            rows.first_block[g][slots] = np.maximum(starts, ends)

    def release(self, blocks: list[list[int]]) -> None:
        for pool, of_group in zip(self.pools, blocks, strict=True):
            if of_group:
                pool.release(of_group)

    # What becomes findable

    def publish(self, rows: Rows, sequence: Sequence, num_blocks: int) -> None:
        """Makes the row's computed blocks up to `num_blocks` findable under the sequence's keys."""
        slot, size = sequence.slot, self.config.block_size
        for index in range(sequence.published, num_blocks if self.can_reuse else 0):
            for g, pool in enumerate(self.pools):
                if index < rows.first_block[g][slot]:
                    continue
                block = int(rows.tables[g][slot, index])
                if pool.publish(block, sequence.keys[index]) and g == 0 and self.config.token_ids:
                    self._block_tokens[block] = rows.tokens[slot, index * size : (index + 1) * size]
        sequence.published = max(sequence.published, num_blocks)

    def publish_loaded(self, keys: tuple[bytes, ...], blocks: list[list[int]], tokens: npt.NDArray[np.int32]) -> None:
        """The same for blocks that a transfer filled. `tokens` are those of the blocks, one row a block."""
        for g, pool in enumerate(self.pools):
            for i, (key, block) in enumerate(zip(keys, blocks[g], strict=True)):
                if pool.publish(block, key) and g == 0 and self.config.token_ids:
                    self._block_tokens[block] = tokens[i]

    # How much there is

    def entries(self, num_tokens: int) -> int:
        return -(-num_tokens // self.config.block_size)

    def worst_case(self, num_tokens: int) -> list[int]:
        """Most blocks, by group, that a sequence of this length holds at once."""
        return [self._worst_case(group, self.entries(num_tokens)) for group in self.groups]

    def _worst_case(self, group: CacheGroup, entries: int) -> int:
        if group.kind == "state":
            return 1
        if group.kind == "window":
            return min(entries, (group.window + self.config.max_step_tokens) // self.config.block_size + 2)
        return entries

    def has_room(self, missing: list[int], beside: list[int]) -> bool:
        """Whether every positional group can give prompts the entries that they lack, and as many as `beside` says of
        it: of a window no more than are held at once, as what falls behind it is given back.
        """
        return all(
            sum(self._worst_case(group, entries) for entries in missing) + more <= pool.num_available
            for group, pool, more, grows in zip(self.groups, self.pools, beside, self.is_positional, strict=True)
            if grows
        )

    def num_available(self) -> int:
        """Entries that every positional group can still give."""
        return min([pool.num_available for pool in self._positional], default=1 << 62)

    def num_states_available(self) -> int:
        return min([pool.num_available for pool in self._states], default=1 << 62)


def _table_change(changes: list[tuple[int, int, list[int]]]) -> TableChange:
    if not changes:
        return NO_CHANGE
    slots, firsts, blocks = zip(*changes, strict=True)
    lengths = np.array([len(of_row) for of_row in blocks])
    entered = np.concatenate(blocks)
    # Entries of a row count on from its first one.
    begins = np.cumsum(lengths) - lengths
    indices = np.arange(len(entered)) + np.repeat(np.array(firsts) - begins, lengths)
    return TableChange(np.repeat(np.array(slots), lengths), indices, entered)
