"""An engine's process: started in a session of its own, stopped before the next one starts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

LINE_BYTES = 1 << 20
STOP_S = 20.0
TAIL_BYTES = 4096


class EngineError(Exception):
    """An engine did not start, or was lost. One line for the user."""


class Child:
    """Its output goes to a log, except `stdout` where that is a pipe. Ctrl-C does not reach it: `stop` ends it."""

    def __init__(self, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
        self.process = process
        self._log = log

    @classmethod
    async def spawn(cls, command: Sequence[str], env: Mapping[str, str], *, pipes: bool = False) -> Child:
        """Raises EngineError."""
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE if pipes else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if pipes else log,
                stderr=log,
                env={**os.environ, **env},
                cwd=tempfile.gettempdir(),
                limit=LINE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            log.close()
            raise EngineError(f"cannot start {Path(command[0]).name}: {error.strerror}") from None
        return cls(process, log)

    def why(self) -> str:
        """The last line that it wrote and that says something."""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - TAIL_BYTES))
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if len(line) > 3), "it wrote nothing")[:300]

    async def stop(self) -> None:
        """Returns when the process and what it started are gone."""
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGKILL)
            await self.process.wait()
            self._log.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
