"""The same closed-loop load by `headway bench` and by NVIDIA's AIPerf, in turns: do their figures agree?

    python -m venv DIR && DIR/bin/pip install aiperf
    python benchmarks/against_aiperf.py --aiperf DIR/bin/aiperf --tokenizer FOLDER [--headway FOLDER]

With --headway both measure `headway serve FOLDER`, whose engine has one thread (load generators need a core too) and no
prefix cache (AIPerf's prompts follow from its seed: the second run would measure the cache). With --url and --model
they measure that server; otherwise one of this script, whose delays are known and printed beside. AIPerf leaves
the chat template out of a prompt's length, so ours is asked for what it adds as well. Agreement: the means of the
two differ by no more than the runs of either do among themselves, or by 5%.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from serving.headway_server import headway_server

TTFT_S, GAP_S = 0.2, 0.02
TOLERANCE = 0.05
FIGURES = {
    "TTFT mean, ms": ("ttft_s", "time_to_first_token", 1000.0),
    "TPOT mean, ms": ("tpot_s", "inter_token_latency", 1000.0),
    "end to end mean, ms": ("e2e_s", "request_latency", 1000.0),
    "output tokens/s": ("output_tokens_per_s", "output_token_throughput", 1.0),
    "requests/s": ("requests_per_s", "request_throughput", 1.0),
}
"""Name → our key, theirs, and the factor from our unit to theirs."""
HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {}\r\n{}\r\n\r\n"
Figures = dict[str, float]


def chunk(fields: Any) -> bytes:
    data = b"data: " + (fields if isinstance(fields, bytes) else json.dumps(fields).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


async def answer(writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
    """`max_tokens` words: the first after TTFT_S, one more every GAP_S."""
    loop = asyncio.get_running_loop()
    due_s, tokens = loop.time() + TTFT_S, body.get("max_completion_tokens") or body["max_tokens"]
    prompt = len(body["messages"][0]["content"].split())
    writer.write(HEAD.format("text/event-stream", "transfer-encoding: chunked").encode())
    for i in range(tokens):
        await asyncio.sleep(due_s - loop.time())
        due_s += GAP_S
        choice = {"index": 0, "delta": {"content": " time"}, "finish_reason": "length" if i == tokens - 1 else None}
        writer.write(chunk({"id": "1", "object": "chat.completion.chunk", "model": "paced", "choices": [choice]}))
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    writer.write(chunk({"id": "1", "choices": [], "usage": usage}) + chunk(b"[DONE]") + b"0\r\n\r\n")


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            body = await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0))
            if " /v1/chat/completions " in head:
                await answer(writer, json.loads(body))
            else:
                card = json.dumps({"object": "list", "data": [{"id": "paced", "object": "model"}]})
                writer.write((HEAD.format("application/json", f"content-length: {len(card)}") + card).encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(told: Connection) -> None:
    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def serve_process(told: Connection) -> None:
    asyncio.run(serve(told))


@contextmanager
def served(options: argparse.Namespace) -> Iterator[str]:
    """The URL of what is measured."""
    if options.url is not None:
        yield options.url
    elif options.headway is not None:
        options.model = options.headway.name
        with headway_server(options.headway, "--no-prefix-cache", threads=1) as url:
            yield url
    else:
        with paced_server() as url:
            print(f"known: TTFT {1000 * TTFT_S:g} ms, TPOT {1000 * GAP_S:g} ms, end to end ", end="")
            print(f"{1000 * (TTFT_S + (options.output - 1) * GAP_S):g} ms")
            yield url


@contextmanager
def paced_server() -> Iterator[str]:
    near, far = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve_process, args=(far,), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{near.recv()}"
    finally:
        server.terminate()
        server.join()


def ours(options: argparse.Namespace, seed: int, overhead: int) -> Figures:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-c", "from headway.cli.bench import bench; bench()", options.url]
        command += ["--model", options.model, "--tokenizer", str(options.tokenizer), "--warmup", "4"]
        command += ["--requests", str(options.requests), "--concurrency", str(options.concurrency), "--json"]
        command += ["--input-tokens", str(options.input + overhead), "--output-tokens", str(options.output)]
        command += ["--prompt-seed", str(seed), "--max-lateness-s", "1", "--out", f"{directory}/run"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    summary = json.loads(done.stdout)["summary"]
    spreads = {key: spread["mean"] for key, spread in summary["distributions"].items()}
    return {name: (spreads | summary["rates"])[key] * factor for name, (key, _, factor) in FIGURES.items()}


def theirs(options: argparse.Namespace, seed: int) -> Figures:
    with tempfile.TemporaryDirectory() as directory:
        command = [str(options.aiperf), "profile", "-m", options.model, "--url", options.url, "--streaming"]
        command += ["--endpoint-type", "chat", "--tokenizer", str(options.tokenizer), "--ui", "none"]
        command += ["--concurrency", str(options.concurrency), "--request-count", str(options.requests)]
        command += ["--warmup-request-count", "4", "--isl", str(options.input), "--isl-stddev", "0"]
        command += ["--osl", str(options.output), "--extra-inputs", "ignore_eos:true", "--random-seed", str(seed)]
        command += ["--artifact-dir", directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        result = Path(directory, "profile_export_aiperf.json")
        if not result.exists():
            sys.exit(f"AIPerf made no result: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        exported = json.loads(result.read_bytes())
    return {name: exported[key]["avg"] for name, (_, key, _) in FIGURES.items()}


def template_tokens(options: argparse.Namespace) -> int:
    """What the server adds to a prompt."""
    from headway.bench.client import Client, ClientSettings
    from headway.bench.endpoint import endpoint
    from headway.bench.probe import overhead
    from headway.bench.words import WORDS

    async def probed() -> int:
        client = Client(endpoint(options.url, model=options.model), ClientSettings())
        try:
            return (await overhead(client, list(WORDS), 0))[0]
        finally:
            client.close()

    return asyncio.run(probed())


def compared(mine: list[Figures], other: list[Figures]) -> bool:
    """Prints a line a figure. Whether all agree."""
    agreed = True
    for name in FIGURES:
        a, b = [run[name] for run in mine], [run[name] for run in other]
        mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
        noise = max(max(a) - min(a), max(b) - min(b), TOLERANCE * mean_b)
        same = abs(mean_a - mean_b) <= noise
        agreed &= same
        runs = ["  ".join(f"{value:9.2f}" for value in values) for values in (a, b)]
        print(
            f"{name:20}  headway {runs[0]}   AIPerf {runs[1]}   {mean_a / mean_b - 1:+.1%}{'' if same else '  DIFFERS'}"
        )
    return agreed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aiperf", type=Path, required=True, help="its executable")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with the model's tokenizer")
    parser.add_argument("--headway", type=Path, help="folder of a model, as --tokenizer")
    parser.add_argument("--url")
    parser.add_argument("--model", default="paced")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--input", type=int, default=128)
    parser.add_argument("--output", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    with served(options) as options.url:
        overhead = template_tokens(options)
        mine: list[Figures] = []
        other: list[Figures] = []
        for repeat in range(options.repeats):
            mine.append(ours(options, 2 * repeat, overhead))
            other.append(theirs(options, 2 * repeat + 1))
    sys.exit(not compared(mine, other))


if __name__ == "__main__":
    main()
