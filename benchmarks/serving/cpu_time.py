"""Who had the cores: on a shared machine a figure means little without it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_IDLE = (3, 4)
"""Of the fields of `cpu` in /proc/stat: idle, and waiting for a disk."""
_SESSION, _TIMES = 3, slice(11, 15)
"""Of the fields of /proc/PID/stat behind the name: session, and user, system, and both of children waited for."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU seconds up to one moment."""

    at_s: float
    all_s: float
    """Of all cores, with what other guests of the host took."""
    ours_s: float
    """Of this process and of the engine's session."""

    @classmethod
    def now(cls, engine_session: int) -> CpuTime | None:
        """None where there is no /proc."""
        try:
            fields = [int(field) for field in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:
            return None
        busy = sum(fields) - sum(fields[i] for i in _IDLE)
        ticks = os.sysconf("SC_CLK_TCK")
        return cls(time.monotonic(), busy / ticks, time.process_time() + _session_ticks(engine_session) / ticks)

    def cores_of_others(self, since: CpuTime) -> float:
        """Mean number of cores that neither the engine nor the client used, but somebody else."""
        others_s = (self.all_s - since.all_s) - (self.ours_s - since.ours_s)
        return max(0.0, others_s) / (self.at_s - since.at_s)


def _session_ticks(session: int) -> int:
    total = 0
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # It has ended.
            continue
        if int(fields[_SESSION]) == session:
            total += sum(map(int, fields[_TIMES]))
    return total
