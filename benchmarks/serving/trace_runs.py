"""A trace of requests, and its run on a real server of its own."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from headway.bench.client import Client, ClientSettings
from headway.bench.endpoint import endpoint
from headway.bench.load import Load, Pace
from headway.bench.metrics import tpot_s, ttft_s
from headway.bench.record import Record
from headway.bench.words import WORDS
from headway.simulator.replay import replay
from headway.simulator.results import Quantiles, quantiles
from headway.workload.call import Call, Workload

from .headway_server import headway_server

BLOCK = 16
SHARED_TOKENS = 64


@dataclass(frozen=True)
class Trace:
    calls: tuple[Call, ...]
    prompts: dict[str, list[int]]
    """Token ids, by call."""

    @property
    def workload(self) -> Workload:
        return Workload("parity", [(call,) for call in self.calls], BLOCK, num_calls=len(self.calls))


def make_trace(vocabulary: list[int], requests: int, rate: float, seed: int) -> Trace:
    """Poisson arrivals; 20 to 220 tokens in, or 64 more that half of all have in common; 8 to 40 out."""
    rng = np.random.default_rng(seed)
    common = rng.choice(vocabulary, SHARED_TOKENS).tolist()
    arrivals_s = np.cumsum(rng.exponential(1 / rate, requests))
    calls, prompts = [], {}
    for i, arrival_s in enumerate(arrivals_s.tolist()):
        own = rng.choice(vocabulary, int(rng.integers(20, 220))).tolist()
        shares = bool(rng.integers(2))
        tokens = common + own if shares else own
        first = SHARED_TOKENS // BLOCK if shares else 0
        ids = (*range(1, first + 1), *(1000 * (i + 1) + j for j in range(first, len(tokens) // BLOCK)))
        output = int(rng.integers(8, 40))
        calls.append(Call(str(i), len(tokens), output, arrival_s=arrival_s, hash_ids=ids, max_output_tokens=output))
        prompts[str(i)] = tokens
    return Trace(tuple(calls), prompts)


def plain_tokens(directory: Path) -> list[int]:
    """Ids of whole words, so that answers are text."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    encoded = (tokenizer.encode(f" {word}", add_special_tokens=False).ids for word in WORDS)
    return [ids[0] for ids in encoded if len(ids) == 1]


async def drive(url: str, name: str, trace: Trace) -> list[Record]:
    """A request by itself first, so that the first of the trace finds everything warm."""
    client = Client(endpoint(url, model=name, api="completions"), ClientSettings())

    def body(call: Call) -> bytes:
        fields = {"model": name, "prompt": trace.prompts[call.id], "max_tokens": call.num_output_tokens}
        settings = {"stream": True, "ignore_eos": True, "temperature": 0, "stream_options": {"include_usage": True}}
        return json.dumps(fields | settings).encode()

    async def send(call: Call, content: bytes, scheduled_s: float) -> Record:
        return await client.ask(call, content, load.start_s, scheduled_s)

    warm = trace.calls[-1]
    load = Load(Workload("warm", [(Call("warm", 1, 8),)]), Pace(), lambda _: body(warm), send)
    await load.run(asyncio.Event())
    load = Load(trace.workload, Pace(), body, send)
    await load.run(asyncio.Event())
    client.close()
    return load.records


def real_run(directory: Path, trace: Trace, log: Path, *options: str) -> dict[str, Quantiles]:
    """TTFT and TPOT as the client saw them. `options` are the server's; its step log must replay to the same plans."""
    with headway_server(directory, "--step-log", str(log), *options) as url:
        records = asyncio.run(drive(url, directory.name, trace))
    asked = {call.id: call.num_output_tokens for call in trace.calls}
    for record in records:
        if record.outcome != "ok" or record.usage_output_tokens != asked[record.id]:
            raise SystemExit(
                f"request {record.id}: {record.outcome}, {record.usage_output_tokens} tokens {record.error}"
            )
        record.output_tokens = asked[record.id]
    replayed = replay(log)
    assert replayed.requests == len(records) + 1
    first_s = [(ttft_s(r) or 0.0) + r.lateness_s for r in records]
    return {"ttft_s": quantiles(first_s), "tpot_s": quantiles(s for r in records if (s := tpot_s(r)) is not None)}
