"""Shorthands: one request to a scripted server, or a whole load."""

from __future__ import annotations

import asyncio
from typing import Any

from headway.bench.client import Client, ClientSettings
from headway.bench.counting import count_output
from headway.bench.endpoint import Endpoint
from headway.bench.load import Load, Pace
from headway.bench.record import Record
from headway.workload.call import Call, Workload
from tests.bench.scripted import Script, Server
from tests.bench.virtual import run

ENDPOINT = Endpoint(host="test", port=80, tls=False, base_path="/v1", model="m")


def client(server: Server, **settings: Any) -> Client:
    return Client(ENDPOINT, ClientSettings(**settings), connect=server.connect)


def ask(script: Script, *, tokens: int = 4, count: int | None = None, **settings: Any) -> Record:
    """The counted record of one request that asks for `tokens`; `count`: what a tokenizer says of its text."""
    server = Server([script])

    async def one() -> Record:
        asking = client(server, **settings)
        call = Call("0", 10, tokens)
        record = await asking.ask(call, asking.endpoint.body("hi", tokens), 0.0, 0.0)
        asking.close()
        return record

    record = run(one())
    count_output([record], {} if count is None else {record.text: count})
    return record


def drive(workload: Workload, server: Server, pace: Pace | None = None, stop_at_s: float | None = None) -> Load:
    """All of a workload against `server`; nothing takes time but what it says."""

    async def whole() -> Load:
        asking = client(server)

        async def send(call: Call, body: bytes, scheduled_s: float) -> Record:
            return await asking.ask(call, body, load.start_s, scheduled_s)

        load = Load(workload, pace or Pace(), lambda call: ENDPOINT.body(call.id, call.num_output_tokens), send)
        stop = asyncio.Event()
        if stop_at_s == 0:
            stop.set()
        elif stop_at_s is not None:
            asyncio.get_running_loop().call_later(stop_at_s, stop.set)
        await load.run(stop)
        asking.close()
        return load

    load = run(whole())
    count_output(load.records, {})
    return load
