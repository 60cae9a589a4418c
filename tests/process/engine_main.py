"""An engine process around the scripted body: `python engine_main.py [OPTIONS] --life L --fd N`."""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import socket
import sys
import time

from scripted_engine import VOCAB, ScriptedExecutor

from headway.engine.messages import PROTOCOL, Failed, Ready, frame
from headway.engine.run import run_engine, wire_from_fd
from headway.scheduler.config import CacheGroup, SchedulerConfig
from headway.scheduler.scheduler import Scheduler


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--life", type=int, required=True)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--fault", default="")
    parser.add_argument("--ends-after", type=int, default=0, help="steps")
    parser.add_argument("--ends-by", default="SIGKILL", help="name of a signal")
    parser.add_argument("--once", action="store_true", help="only the first engine misbehaves")
    parser.add_argument("--max-running", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=4096)
    options = parser.parse_args()
    if options.once and options.life:
        options.fault, options.ends_after = "", 0
    fault = options.fault
    protocol = PROTOCOL + 6 if fault == "protocol" else PROTOCOL
    ready = Ready(protocol, "scripted", VOCAB, 512, 16, options.blocks, options.max_running, "none", "none")
    if fault:
        misbehave(fault, options.fd, ready)
    config = SchedulerConfig(
        (CacheGroup("full", options.blocks),), max_running=options.max_running, max_step_tokens=256, max_context=512
    )
    executor = ScriptedExecutor(options.step_s, options.ends_after, signal.Signals[options.ends_by])
    return run_engine(wire_from_fd(options.fd), ready, Scheduler(config), executor)


def misbehave(fault: str, fd: int, ready: Ready) -> None:
    end = socket.socket(fileno=os.dup(fd))
    match fault:
        case "exit":
            sys.exit(3)
        case "unusable":
            end.sendall(frame(Failed("model.safetensors: tensor lm_head.weight is missing")))
            sys.exit(1)
        case "silent":
            time.sleep(1000)
        case "garbage":
            answer(end, ready, b"\xff" * 100)
        case "pickle":
            body = pickle.dumps(print)
            answer(end, ready, len(body).to_bytes(4, "big") + body)
        case "twice":
            answer(end, ready, frame(ready))
    end.close()


def answer(end: socket.socket, ready: Ready, junk: bytes) -> None:
    """Waits for the first request before it misbehaves."""
    end.sendall(frame(ready))
    end.recv(1)
    end.sendall(junk)
    time.sleep(1000)


if __name__ == "__main__":
    sys.exit(main())
