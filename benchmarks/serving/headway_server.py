"""A Headway server of a benchmark's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEADWAY = (str(Path(sys.executable).with_name("headway")),)
READY_S = 120.0


@contextmanager
def headway_server(directory: Path, *options: str, threads: int | None = None) -> Iterator[str]:
    """Its URL. `threads`: of the engine, so that the load generator keeps a core to itself."""
    command = [*HEADWAY, "serve", str(directory), "--port", "0", *options]
    environment = os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if "http" not in line:
                raise SystemExit("the server did not start")
            yield line.split()[-1]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(READY_S)
