"""TTFT and TPOT by pool, where there are several: a mean of all says little of replicas that are unlike."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from headway.simulator.record import Record
from headway.simulator.results import Quantiles, quantiles


class PoolTimes:
    """Takes records one by one; refused ones count nowhere."""

    def __init__(self, pool_of: Sequence[int]) -> None:
        """`pool_of`: the number of each replica's pool."""
        self._pool_of = pool_of
        pools = range(max(pool_of, default=-1) + 1)
        self._ttft_ns = [array("q") for _ in pools]
        self._tpot_ns = [array("d") for _ in pools]

    def add(self, record: Record) -> None:
        """The first token is of the pool that prefilled, the others are of the one that answered."""
        if record.refused or len(self._ttft_ns) == 1:
            return
        answered = self._pool_of[record.replica]
        first = answered if record.prefill_replica is None else self._pool_of[record.prefill_replica]
        self._ttft_ns[first].append(record.ttft_ns)
        if record.receipt.tokens_generated > 1:
            self._tpot_ns[answered].append(record.receipt.tpot_ns)

    def of(self, pool: int) -> tuple[Quantiles | None, Quantiles | None]:
        """TTFT and TPOT, in seconds; None: there is but one pool."""
        if len(self._ttft_ns) == 1:
            return None, None
        return quantiles(self._ttft_ns[pool], 1e-9), quantiles(self._tpot_ns[pool], 1e-9)
