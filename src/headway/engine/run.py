"""An engine at work: the handshake, then the step loop until the HTTP process goes away."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import socket
import sys
import threading
import time

from headway.engine.loop import Brain, Carrier, Loop
from headway.engine.messages import FrameError, Ready
from headway.engine.wire import PeerGone, Wire
from headway.scheduler.contract import Executor

OK, BAD_FRAME = 0, 65


def wire_from_fd(fd: int) -> Wire:
    """The inherited end of the socket. From here on only the HTTP process decides when this one ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    end = socket.socket(fileno=fd)
    threading.Thread(target=_exit_with, args=(end,), name="headway-peer", daemon=True).start()
    return Wire(end)


def _exit_with(end: socket.socket) -> None:
    """While a model is loaded and while a step runs nobody reads the socket, and either can take minutes."""
    poll = select.poll()
    poll.register(end, select.POLLRDHUP)
    poll.poll()
    os._exit(OK)


def run_engine(
    wire: Wire, ready: Ready, brain: Brain, executor: Executor, depth: int = 1, carrier: Carrier | None = None
) -> int:
    """Returns the exit status once the other side is gone or everything has ended after Drain.

    A broken invariant ends the process: what the loop knew goes to stderr, and the exception passes through.
    """
    loop = Loop(brain, executor, wire, time.monotonic_ns, ready.vocab, depth, carrier=carrier)
    try:
        wire.send(ready)
        loop.run()
    except PeerGone:
        return OK
    except FrameError as error:
        print(f"headway engine: the HTTP process sent {error}", file=sys.stderr)
        return BAD_FRAME
    except Exception:
        print(f"headway engine: a step went wrong: {loop.describe()}", file=sys.stderr)
        raise
    return OK
