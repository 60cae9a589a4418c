"""How much of one core the load generator takes: streams at ten tokens a second each, and how late it reads them.

    python benchmarks/bench_client.py [--streams 100,300,1000] [--json]

The server is a process of its own that writes prepared chunks on time and does nothing else; on a machine of two cores
both have one. What is measured is the CPU time of the client's process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from headway.bench.client import Client, ClientSettings
from headway.bench.endpoint import endpoint
from headway.bench.lateness import LagProbe
from headway.bench.load import Load, Pace
from headway.bench.metrics import distributions
from headway.bench.quantiles import distribution
from headway.bench.record import Record
from headway.workload.call import Call, Workload

GAP_S = 0.1
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = (
    b'data: {"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion.chunk","created":1700000000,'
    b'"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":%s}]}\n\n'
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
        tokens = json.loads(body)["max_tokens"]
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        writer.write(HEAD)
        for i in range(tokens):
            due_s += GAP_S
            await asyncio.sleep(due_s - loop.time())
            writer.write(chunk(WORD % (b'"length"' if i == tokens - 1 else b"null")))
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
    finally:
        writer.close()


async def serve(told: Connection) -> None:
    server = await asyncio.start_server(stream, "127.0.0.1", 0, backlog=4096)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def serve_process(told: Connection) -> None:
    asyncio.run(serve(told))


async def drive(port: int, streams: int, seconds: float) -> dict[str, Any]:
    tokens = max(2, round(seconds / GAP_S))
    client = Client(endpoint(f"http://127.0.0.1:{port}", model="m"), ClientSettings())

    async def send(call: Call, body: bytes, scheduled_s: float) -> Record:
        return await client.ask(call, body, load.start_s, scheduled_s)

    calls = [(Call(str(i), 1, tokens, arrival_s=i / streams),) for i in range(streams)]
    load = Load(
        Workload("streams", calls), Pace(), lambda call: client.endpoint.body("hi", call.num_output_tokens), send
    )
    probe = LagProbe()
    probe.start()
    began_s, cpu_s = time.monotonic(), time.process_time()
    await load.run(asyncio.Event())
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - began_s
    probe.stop()
    client.close()
    for record in load.records:
        record.output_tokens = record.num_chunks
    return figures(load.records, probe.lags_s, streams, cpu_s, wall_s)


def figures(records: list[Record], lags_s: list[float], streams: int, cpu_s: float, wall_s: float) -> dict[str, Any]:
    chunks = sum(record.num_chunks for record in records)
    itl, lag = distributions(records).get("itl_s"), distribution(np.asarray(lags_s))
    assert itl is not None and lag is not None  # noqa: PT018
    return {
        "streams": streams,
        "ok": sum(record.outcome == "ok" for record in records),
        "chunks_per_s": chunks / wall_s,
        "client_cpu_share_of_a_core": cpu_s / wall_s,
        "client_cpu_us_per_chunk": 1e6 * cpu_s / chunks,
        "itl_p50_ms": 1000 * itl.at(0.5).value,
        "itl_p99_ms": 1000 * itl.at(0.99).value,
        "loop_lag_p50_ms": 1000 * lag.at(0.5).value,
        "loop_lag_p99_ms": 1000 * lag.at(0.99).value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="100,300,1000", help="how many at once; several with commas between")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each stream")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft < 8192 else soft, hard))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve_process, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    rows = [asyncio.run(drive(port, int(streams), options.seconds)) for streams in options.streams.split(",")]
    server.terminate()
    server.join()
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(", ".join(f"{name} {value:.4g}" for name, value in row.items()))


if __name__ == "__main__":
    main()
