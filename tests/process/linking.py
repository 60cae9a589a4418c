"""How the tests start engines."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from headway.server.engine_link import EngineLink
from headway.server.engine_patience import Patience

ENGINE = (sys.executable, str(Path(__file__).with_name("engine_main.py")))
PATIENCE = Patience(start_s=30, stall_s=20, exit_s=5, backoff_s=0.01, max_backoff_s=0.05)

Start = Callable[..., Awaitable[EngineLink]]
