"""How the tests start engines."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from headway.server.engine_link import EngineLink
from headway.server.engine_patience import Patience

ENGINE = (sys.executable, str(Path(__file__).with_name("engine_main.py")))
PATIENCE = Patience(start_s=120, stall_s=120, exit_s=60, backoff_s=0.01, max_backoff_s=0.05)
"""Of what depends on how busy the machine is, more than any machine needs."""

Start = Callable[..., Awaitable[EngineLink]]
