"""Running sequences as a table of arrays: one row a slot."""

from __future__ import annotations

import numpy as np

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import IN_FLIGHT, Ints
from headway.scheduler.sequence import Sequence

NO_TOKEN = -2
"""Equals no drawn token."""


class Rows:
    """Law, for every row: known >= planned >= committed.

        0 ........ committed ........ planned ........ known          positions
        KV valid             KV in flight     to compute

    `known` counts tokens that have an id or will have one when the plans in flight commit; drafted tokens do not
    count until they are accepted. `capacity` is the number of positions for which the row has blocks.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        size, width = config.max_running, -(-config.max_context // config.block_size)
        self.sequence = np.full(size, None, object)
        self.known = np.zeros(size, np.int64)
        self.planned = np.zeros(size, np.int64)
        self.committed = np.zeros(size, np.int64)
        self.capacity = np.zeros(size, np.int64)
        self.limit = np.zeros(size, np.int64)
        self.stop_token = np.full(size, NO_TOKEN, np.int64)
        self.next_token = np.full(size, IN_FLIGHT, np.int64)
        """Id of the token at position `planned`, where that is the last one."""
        self.last_plan = np.full(size, -1, np.int64)
        self.decoding = np.zeros(size, np.bool_)
        """All of its tokens but the last are planned: it needs one token a step."""
        self.tables = [np.zeros((size, width), np.int64) for _ in config.groups]
        self.first_block = [np.zeros(size, np.int64) for _ in config.groups]
        """Leading table entries that the row no longer holds (they fell out of the window)."""
        self.has_tokens = config.token_ids
        self.tokens = np.zeros((size, config.max_context if config.token_ids else 0), np.int32)
        self.more_stop_tokens: dict[int, frozenset[int]] = {}
        """Rows with more than one stop token."""
        self._free_slots = list(range(size - 1, -1, -1))

    @property
    def num_free(self) -> int:
        return len(self._free_slots)

    def take(self, sequence: Sequence, reused: int, num_entries: int, block_size: int) -> int:
        slot = self._free_slots.pop()
        request = sequence.request
        self.sequence[slot] = sequence
        self.known[slot] = sequence.num_tokens
        self.planned[slot] = self.committed[slot] = reused
        self.capacity[slot] = num_entries * block_size
        self.limit[slot] = request.limit
        self.next_token[slot] = IN_FLIGHT
        stops = request.stop_token_ids
        self.stop_token[slot] = stops[0] if len(stops) == 1 else NO_TOKEN
        if len(stops) > 1:
            self.more_stop_tokens[slot] = frozenset(stops)
        if self.has_tokens:
            self.tokens[slot, : sequence.num_tokens] = sequence.tokens
        return slot

    def give_back(self, slot: int) -> None:
        self.sequence[slot] = None
        self.decoding[slot] = False
        self.more_stop_tokens.pop(slot, None)
        self._free_slots.append(slot)

    def known_tokens(self, slot: int, count: int) -> Ints:
        """The first `count` token ids of a row; empty where there are no ids."""
        return self.tokens[slot, :count].astype(np.int64)
