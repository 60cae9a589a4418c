"""The baseline: Hugging Face `generate` in a child process, without a server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from .child import Child, EngineError
from .client import JOB_TIMEOUT_S
from .http_engine import START_S
from .jobs import Job
from .measurement import Answer

_SCRIPT = Path(__file__).with_name("hf_generate.py")


class HfEngine:
    """A static batch of as many requests as the job has open at one time."""

    def __init__(self, model_dir: Path, env: Mapping[str, str]) -> None:
        self._command = (sys.executable, str(_SCRIPT), str(model_dir))
        self._env = env
        self._child: Child | None = None

    async def start(self) -> None:
        """Raises EngineError."""
        self._child = await Child.spawn(self._command, self._env, pipes=True)
        await self._line(self._child, START_S)

    async def run(self, job: Job, prompts: Sequence[Sequence[int]]) -> tuple[list[Answer], float | None]:
        """The answers, and None: there is no client. Raises EngineError."""
        assert self._child is not None
        assert self._child.process.stdin is not None
        order = {"prompts": prompts, "batch": job.concurrency, "output_tokens": job.output_tokens}
        try:
            self._child.process.stdin.write(msgspec.json.encode(order) + b"\n")
            await self._child.process.stdin.drain()
        except ConnectionError:
            raise EngineError(f"it ended: {self._child.why()}") from None
        line = await self._line(self._child, JOB_TIMEOUT_S)
        return msgspec.json.decode(line, type=list[Answer]), None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.process.pid

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()

    async def _line(self, child: Child, timeout_s: float) -> bytes:
        assert child.process.stdout is not None
        try:
            line = await asyncio.wait_for(child.process.stdout.readline(), timeout_s)
        except TimeoutError:
            raise EngineError(f"no answer in {timeout_s:g} s: {child.why()}") from None
        if not line:
            raise EngineError(f"it ended with status {await child.process.wait()}: {child.why()}")
        return line
