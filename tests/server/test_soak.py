"""A mixture of everything; afterwards nothing is left of it."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from pathlib import Path

from headway.server.engine import EngineFailed
from headway.server.limits import Limits
from tests.server.live import MODEL, Live, eventually, read_all, request_bytes, serving
from tests.server.scripted_engine import Step, Submit

BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
THREADS, REQUESTS = 8, 40


def mixed_reply(submit: Submit) -> list[Step]:
    rng = random.Random(submit.sampling.seed)  # noqa: S311
    faults: list[Step] = [EngineFailed("x"), RuntimeError("x")]
    steps: list[Step] = [[5], 0.002, [6, 7]] * rng.randrange(1, 10)
    return steps + ([rng.choice(faults)] if rng.random() < 0.2 else [[2]])


def one_client(live: Live, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    for _ in range(REQUESTS):
        with live.connect() as sock:
            fields = {"stream": rng.random() < 0.5, "n": rng.choice([1, 1, 3]), "seed": rng.randrange(2**40)}
            if rng.random() < 0.1:
                fields["temperature"] = -1
            data = request_bytes("/v1/chat/completions", BODY | fields, "Connection: close")
            kind = rng.random()
            sock.sendall(data[: rng.randrange(len(data))] if kind < 0.1 else data)
            if kind < 0.3:
                if kind < 0.2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                continue
            assert read_all(sock).startswith(b"HTTP/1.1 ")


def test_a132_nothing_is_left_after_a_mixture_of_everything(directory: Path) -> None:
    with serving(directory, limits=Limits(drain_s=2.0, body_timeout_s=1.0)) as live:
        loop = live.server.servers[0].get_loop()
        tasks = len(asyncio.all_tasks(loop))
        live.engine.reply = mixed_reply
        threads = [threading.Thread(target=one_client, args=(live, seed)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        inflight = live.server._app.inflight
        eventually(lambda: not live.engine.running)
        eventually(lambda: not live.server.server_state.connections)
        eventually(lambda: len(asyncio.all_tasks(loop)) <= tasks)
        eventually(lambda: (inflight.count, inflight.held_bytes, inflight.jobs) == (0, 0, 0))
        lines = live.scrape()
        # Each submitted sequence has exactly one ending, whatever it is.
        assert live.metric("vllm:request_success_total", lines) == len(live.engine.submits)
        for reason in ("stop", "abort", "error"):
            assert live.metric(f'vllm:request_success_total{{finished_reason="{reason}"', lines) > 0
