"""Statistics over the lives of all engines."""

from __future__ import annotations

import msgspec

from headway.engine.messages import EngineStats

_GAUGES = frozenset({"num_running", "num_waiting", "blocks_used", "blocks_cached", "blocks_total", "tier_blocks"})
_TOTALS = tuple(name for name in EngineStats.__struct_fields__ if name not in _GAUGES)


class Totals:
    """Gauges are the present engine's; totals carry on from engine to engine."""

    def __init__(self) -> None:
        self._past = EngineStats()
        self._present = EngineStats()

    def update(self, stats: EngineStats) -> None:
        self._present = stats

    def engine_died(self) -> None:
        self._past = self._sum(EngineStats())
        self._present = EngineStats()

    def stats(self, unsent: int) -> EngineStats:
        """`unsent` requests wait outside of the engine."""
        total = self._sum(self._present)
        return msgspec.structs.replace(total, num_waiting=total.num_waiting + unsent)

    def _sum(self, gauges: EngineStats) -> EngineStats:
        totals = {name: getattr(self._past, name) + getattr(self._present, name) for name in _TOTALS}
        return msgspec.structs.replace(gauges, **totals)
