"""Any trace file, by what its first line looks like."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headway.workload.agent_sessions import read_agent_sessions
from headway.workload.azure import HEADER, read_azure
from headway.workload.call import Workload, WorkloadError
from headway.workload.lines import read_lines, where
from headway.workload.mooncake import read_mooncake
from headway.workload.step_log_trace import read_step_log
from headway.workload.tracelab import read_tracelab


def open_trace(path: Path, seed: int = 0, session_rate_per_s: float = 0.05) -> Workload:
    """Azure, Mooncake, TraceLab, compact agent sessions, or Headway's own step log; gzipped or not. The seed and rate
    matter only where a trace does not say when its sessions start. Raises WorkloadError for what is none of these.
    """
    number, line = next(read_lines(path), (1, b""))
    if not line:
        raise WorkloadError(f"{where(path, 1)}: the trace is empty")
    if line.removeprefix(b"\xef\xbb\xbf").startswith(HEADER[:9]):
        return read_azure(path)
    match _fields(line):
        case {"event": "header"}:
            return read_step_log(path)
        case {"timestamp": _, "input_length": _}:
            return read_mooncake(path)
        case {"session_id": _, "timing_events": _}:
            return read_tracelab(path)
        case {"bs": _, "r": _}:
            return read_agent_sessions(path, session_rate_per_s, seed)
    raise WorkloadError(
        f"{where(path, number)}: not a trace that is known: Azure CSV, or JSON lines with timestamp and input_length "
        "(Mooncake), session_id and timing_events (TraceLab), bs and r (agent sessions), or a step log"
    )


def _fields(line: bytes) -> dict[str, object]:
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
