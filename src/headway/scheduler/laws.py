"""The laws of the brain that can be checked between two calls. Each is explained in docs/invariants.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headway.scheduler.claims import Claims
from headway.scheduler.contract import DEVICE
from headway.scheduler.running import Running
from headway.scheduler.sequence import QUEUED, Sequence, Status
from headway.scheduler.transfers import Transfers
from headway.scheduler.waiting import WaitingQueue


def check_laws(
    running: Running, queue: WaitingQueue, claims: Claims, transfers: Transfers, sequences: Mapping[str, Sequence]
) -> None:
    """Raises AssertionError naming the law."""
    _check_blocks(running, transfers)
    _check_tiers(transfers)
    _check_rows(running)
    queued = [s for s in sequences.values() if s.status in QUEUED]
    seated = [s for s in sequences.values() if s.slot >= 0]
    _law("a request is either queued or has a slot", len(queued) + len(seated) == len(sequences))
    _law("the queue counts its requests", queue.num_requests == len(queued))
    _law("the queue counts its tokens", queue.num_tokens == sum(s.num_tokens for s in queued))
    _law("slots are owned by living requests", running.num == len(seated))
    parked = {id(s) for s in queued if s.status is Status.PARKED}
    waiters = [id(w) for s in sequences.values() for _, w in s.waiters]
    _law("who is parked is waited for by its owner, once", sorted(parked) == sorted(waiters))
    _law("nothing is claimed on an idle brain", bool(sequences) or len(claims) == 0)


def _check_blocks(running: Running, transfers: Transfers) -> None:
    """Blocks are held exactly as often as block tables and transfers name them."""
    for g, pool in enumerate(running.cache.pools):
        pool.check()
        holds: Counter[int] = Counter()
        for sequence in running.rows.sequence:
            if sequence is not None:
                holds.update(running.cache.held(running.rows, sequence.slot)[g])
        for load in transfers.active_loads():
            holds.update(load.blocks[g].tolist())
        for save in transfers.saves.active():
            holds.update(save.blocks[g].tolist() if save.source == DEVICE else ())
        _law(f"group {g}: every hold has a holder", holds == pool.holds())


def _check_tiers(transfers: Transfers) -> None:
    for name, pool in transfers.tiers.pools.items():
        pool.check()
        holds: Counter[int] = Counter()
        for load in transfers.active_loads():
            holds.update(load.sources.tolist() if load.tier == name else ())
        for save in transfers.saves.active():
            holds.update(save.targets.tolist() if save.tier == name else ())
            holds.update(save.blocks[0].tolist() if save.source == name else ())
        _law(f"tier {name}: every hold has a holder", holds == pool.holds())


def _check_rows(running: Running) -> None:
    rows = running.rows
    for sequence in running.rows.sequence:
        if sequence is None or sequence.status is Status.ENDING:
            continue  # an ending row's counts shrink as unwanted draws come in
        slot = sequence.slot
        known, planned, committed = int(rows.known[slot]), int(rows.planned[slot]), int(rows.committed[slot])
        _law("known >= planned >= committed", known >= planned >= committed >= 0)
        _law("planned positions have blocks", planned <= int(rows.capacity[slot]))
        _law("known tokens stay in the limit", known <= int(rows.limit[slot]))


def _law(name: str, holds: bool) -> None:
    if not holds:
        raise AssertionError(f"broken law: {name}")
