"""From the queue to a slot: best priority first, then arrival, and nobody overtakes one who waits for room."""

from __future__ import annotations

from headway.scheduler.claims import Claims
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.kv_cache import Hit, KVCache
from headway.scheduler.running import Running
from headway.scheduler.sequence import Sequence
from headway.scheduler.transfers import Transfers
from headway.scheduler.waiting import WaitingQueue


class Admission:
    def __init__(
        self, config: SchedulerConfig, queue: WaitingQueue, running: Running, claims: Claims, transfers: Transfers
    ) -> None:
        self.config = config
        self.queue = queue
        self.running = running
        self.cache: KVCache = running.cache
        self.claims = claims
        self.transfers = transfers
        self.prefix_queries = 0
        self.prefix_hits = 0

    def next(self, now_ns: int) -> Sequence | None:
        """Seats the first queued sequence that need not wait for others' blocks; None if there is no room for it."""
        while self.running.rows.num_free and (sequence := self.queue.peek()) is not None:
            hit = self._find_prefix(sequence)
            if self._waits_for_blocks(sequence, hit.num_blocks, now_ns):
                continue
            if not self._has_room(sequence, hit):
                return None
            self.cache.hold(hit)
            self.queue.pop()
            self.queue.leave(sequence)
            self.running.seat(sequence, hit, now_ns)
            self.prefix_queries += sequence.num_tokens
            self.prefix_hits += hit.num_blocks * self.config.block_size
            return sequence
        return None

    def parks(self, head: Sequence, now_ns: int) -> bool:
        """Takes the head of the queue aside if it has to wait for blocks."""
        return self._waits_for_blocks(head, self._find_prefix(head).num_blocks, now_ns)

    def lacks_room(self, head: Sequence) -> bool:
        return not self.running.rows.num_free or not self._has_room(head, self._find_prefix(head))

    def _find_prefix(self, sequence: Sequence) -> Hit:
        return self.cache.find_prefix(sequence, self._reusable_blocks(sequence))

    def _reusable_blocks(self, sequence: Sequence) -> int:
        """At least one token is computed anew: its logits are needed."""
        if not self.cache.can_reuse or sequence.request.reads_whole_prompt:
            return 0
        return min(len(sequence.keys), (sequence.num_tokens - 1) // self.config.block_size)

    def _waits_for_blocks(self, sequence: Sequence, start: int, now_ns: int) -> bool:
        """Parks it behind the row that computes its block `start`, or begins to load that from a slower tier."""
        end = self._reusable_blocks(sequence)
        claimed = self.claims.owner(sequence, start, end)
        if claimed is not None:
            self.queue.pop()
            self.claims.park(sequence, *claimed)
            return True
        if (stop := self.transfers.start(sequence, start, end, now_ns)) is not None:
            self.queue.pop()
            sequence.published = start  # what it published before it was preempted is not all here any more
            self.claims.make(sequence, start, stop)
            return True
        return False

    def _has_room(self, sequence: Sequence, hit: Hit) -> bool:
        """Room for all its known tokens, for what prompts already begun still need, and for one block a running row."""
        running, size = self.running, self.config.block_size
        if self.config.reservation == "worst_case":
            worst = running.reserved + self.cache.worst_case(sequence.request.limit)
            if any(need > pool.num_blocks for need, pool in zip(worst.tolist(), self.cache.pools, strict=True)):
                return False
        rows = running.rows
        missing = [self.cache.entries(sequence.num_tokens) - hit.num_blocks]
        missing += [
            self.cache.entries(int(rows.known[s.slot])) - int(rows.capacity[s.slot]) // size for s in running.begun
        ]
        beside = [held + running.num for held in self.cache.num_evictable(hit)]
        return self.cache.has_room(missing, beside) and self.cache.num_states_available() >= 1
