"""A body's own copy of the block tables, one for each cache group."""

from __future__ import annotations

import numpy as np

from headway.scheduler.contract import Ints, TableChange


class BlockTables:
    """tables[g][slot, i] is the block of the slot's tokens i * block_size and after.

    Entries of a released slot, or behind a window, are stale; nothing reads them.
    """

    def __init__(self, num_groups: int, max_running: int, width: int) -> None:
        self.tables: tuple[Ints, ...] = tuple(np.zeros((max_running, width), np.int64) for _ in range(num_groups))

    def apply(self, changes: tuple[TableChange, ...]) -> None:
        for table, change in zip(self.tables, changes, strict=True):
            table[change.slots, change.indices] = change.blocks
