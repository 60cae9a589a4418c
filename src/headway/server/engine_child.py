"""One life of an engine process: spawned, greeted, spoken to, lost once."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self, cast

from headway.engine.messages import PROTOCOL, Failed, FrameError, Frames, FromEngine, Message, Ready, frame

_WRITE_BUFFER_BYTES = 1024 * 1024
_READ_BYTES = 256 * 1024


class EngineUnusable(Exception):
    """No engine can be had from this command; the text is one line for the user."""


class EngineChild(asyncio.Protocol):
    """`lost` gets the reason once: the socket closed, a bad frame came, or the link gave it up."""

    def __init__(self, on_message: Callable[[FromEngine], None], on_writable: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = loop.create_future()
        self.writable = True
        self.heard = True
        """Whether a message came since the watcher last set this to False."""
        self._ready: asyncio.Future[Ready] = loop.create_future()
        self._on_message, self._on_writable = on_message, on_writable
        self._frames = Frames("from_engine")
        self._transport: asyncio.Transport
        self._process: subprocess.Popen[bytes]

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str],
        life: int,
        env: Mapping[str, str] | None,
        on_message: Callable[[FromEngine], None],
        on_writable: Callable[[], None],
    ) -> Self:
        """Starts `command --life L --fd N`: L engines came before it, and N is its end of the socket.

        Raises EngineUnusable when it can't be started.
        """
        child = cls(on_message, on_writable)
        try:
            with ExitStack() as on_failure:
                ours, theirs = socket.socketpair()
                on_failure.callback(ours.close)
                with theirs:
                    child._process = _execute([*command, "--life", str(life)], theirs.fileno(), env)
                on_failure.callback(child._process.wait)
                on_failure.callback(child._process.kill)
                await asyncio.get_running_loop().create_connection(lambda: child, sock=ours)
                on_failure.pop_all()
        except OSError as error:
            raise EngineUnusable(f"the engine process could not be started: {error}") from None
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    async def greet(self, timeout_s: float) -> Ready:
        """What the engine says of itself when its model is loaded. Raises EngineUnusable."""
        either: list[asyncio.Future[Any]] = [self._ready, self.lost]
        await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done() or self._ready.cancelled():
            self.lose(f"the engine was not ready after {timeout_s:g} s")
            raise EngineUnusable(await self.end())
        ready = self._ready.result()
        if ready.protocol != PROTOCOL:
            raise EngineUnusable(
                f"the engine speaks protocol {ready.protocol} and this server speaks {PROTOCOL}: "
                "they come from different versions of Headway"
            )
        return ready

    def send(self, message: Message) -> None:
        """May go nowhere when the engine is dying: whoever sends keeps what must not be lost."""
        if not self.lost.done():
            self._transport.write(frame(message))

    def lose(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)
        if not self._ready.done():
            self._ready.cancel()

    async def end(self) -> str:
        """Kills the process if it still runs, and says how it was lost."""
        self.lose("stopped")
        self._transport.abort()
        reason = self.lost.result()
        # When it is exiting by itself, its own status says more than our signal would.
        finishing = asyncio.to_thread(_finish, self._process, 1.0 if reason == _CLOSED else 0.0)
        await _though_cancelled(asyncio.ensure_future(finishing))
        return f"{reason} ({_status(self._process.returncode)})" if reason == _CLOSED else reason

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._hear_the_rest()
        self.lose(_CLOSED)

    def _hear_the_rest(self) -> None:
        """A write to an engine that has died fails before what it had said is read."""
        fd = self._transport.get_extra_info("socket").fileno()
        with suppress(OSError):
            while data := os.read(fd, _READ_BYTES):
                self.data_received(data)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._frames.feed(data)
        except FrameError as error:
            self.lose(f"the engine sent {error}")
            return
        for message in messages:
            if self.lost.done():
                return
            self.heard = True
            self._receive(cast(FromEngine, message))

    def _receive(self, message: FromEngine) -> None:
        greeted = self._ready.done()
        match message:
            case Ready() if not greeted:
                self._ready.set_result(message)
            case Failed(reason=reason) if not greeted:
                self.lose(reason)
            case _ if greeted and not isinstance(message, Ready | Failed):
                self._on_message(message)
            case _:
                self.lose(f"the engine sent {type(message).__name__} out of turn")

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._on_writable()


_CLOSED = "the engine process ended"


async def _though_cancelled(work: asyncio.Task[None]) -> None:
    """A call that no thread has taken up yet would never be made, and its process would stay."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await work
        raise


def _execute(command: Sequence[str], fd: int, env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    # A group of its own: Ctrl-C in a terminal reaches only the HTTP process, which drains.
    arguments = [*command, "--fd", str(fd)]
    return subprocess.Popen(arguments, pass_fds=(fd,), env=env, stdin=subprocess.DEVNULL, process_group=0)  # noqa: S603


def _finish(process: subprocess.Popen[bytes], grace_s: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    process.kill()
    process.wait()


def _status(returncode: int) -> str:
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"
