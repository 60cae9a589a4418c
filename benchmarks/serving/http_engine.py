"""An engine behind an OpenAI-compatible server of its own process."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping, Sequence

import httpx

from .child import Child, EngineError
from .client import JOB_TIMEOUT_S, run_job
from .jobs import Job
from .measurement import Answer

START_S = 600.0
HOST = "127.0.0.1"


class HttpEngine:
    """`command(port)` starts the server."""

    def __init__(self, command: Callable[[int], Sequence[str]], env: Mapping[str, str]) -> None:
        self._command, self._env = command, env
        self._child: Child | None = None
        self._url = self._model = ""

    async def start(self) -> None:
        """Returns when it answers. Raises EngineError."""
        port = _free_port()
        self._url = f"http://{HOST}:{port}"
        self._child = await Child.spawn(self._command(port), self._env)
        self._model = await self._served_model(self._child)

    async def run(self, job: Job, prompts: Sequence[Sequence[int]]) -> tuple[list[Answer], float | None]:
        """The answers and the client's CPU share. Raises EngineError."""
        try:
            async with asyncio.timeout(JOB_TIMEOUT_S):
                return await run_job(self._url, self._model, job, prompts)
        except TimeoutError:
            raise EngineError(f"{job.name} took more than {JOB_TIMEOUT_S:g} s") from None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.process.pid

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()

    async def _served_model(self, child: Child) -> str:
        until_s = time.monotonic() + START_S
        async with httpx.AsyncClient(timeout=5, trust_env=False) as http:
            while time.monotonic() < until_s:
                if child.process.returncode is not None:
                    raise EngineError(f"it ended with status {child.process.returncode}: {child.why()}")
                model = await _model(http, self._url)
                if model is not None:
                    return model
                await asyncio.sleep(0.1)
        raise EngineError(f"it was not ready after {START_S:g} s: {child.why()}")


async def _model(http: httpx.AsyncClient, url: str) -> str | None:
    """What the server calls its model; None while it is not ready."""
    try:
        if (await http.get(f"{url}/health")).status_code != 200:
            return None
        return str((await http.get(f"{url}/v1/models")).json()["data"][0]["id"])
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
        return None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])
