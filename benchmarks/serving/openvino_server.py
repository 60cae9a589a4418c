"""Run as a script in OpenVINO's environment: its continuous batching behind the least of a server.

OpenVINO GenAI comes without one. Answers carry no text: detokenising costs it nothing, which is in its favour.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import queue
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

KV_GB = 4
MAX_WAITING = 1024
_MODEL = "openvino"


@dataclass(frozen=True, slots=True)
class Order:
    """Counts of new tokens come through `put`, a None at the end."""

    prompt: list[int]
    output_tokens: int
    loop: asyncio.AbstractEventLoop
    counts: asyncio.Queue[int | None]

    def put(self, count: int | None) -> None:
        self.loop.call_soon_threadsafe(self.counts.put_nowait, count)


class Stepper(threading.Thread):
    """The one thread that touches the pipeline."""

    def __init__(self, pipeline: Any) -> None:
        super().__init__(daemon=True)
        self.orders: queue.Queue[Order] = queue.Queue(MAX_WAITING)
        self._pipeline = pipeline
        self._open: list[tuple[Any, Order]] = []
        self._ids = itertools.count()

    def run(self) -> None:
        while True:
            self._admit()
            self._pipeline.step()
            self._open = [(handle, order) for handle, order in self._open if not self._tell(handle, order)]

    def _admit(self) -> None:
        while not self._open or not self.orders.empty():
            order = self.orders.get()
            config = genai.GenerationConfig(max_new_tokens=order.output_tokens, ignore_eos=True, do_sample=False)
            prompt = ov.Tensor(np.array([order.prompt], np.int64))
            self._open.append((self._pipeline.add_request(next(self._ids), prompt, config), order))

    def _tell(self, handle: Any, order: Order) -> bool:
        """Whether the request has ended."""
        while handle.can_read():
            order.put(sum(len(output.generated_ids) for output in handle.read().values()))
        if handle.get_status().name == "RUNNING":
            return False
        order.put(None)
        return True


def application(stepper: Stepper) -> Starlette:
    async def health(_: Request) -> JSONResponse:
        return JSONResponse({})

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"data": [{"id": _MODEL}]})

    async def completions(request: Request) -> StreamingResponse:
        body = json.loads(await request.body())
        order = Order(body["prompt"], body["max_tokens"], asyncio.get_running_loop(), asyncio.Queue())
        stepper.orders.put_nowait(order)
        return StreamingResponse(_events(order), media_type="text/event-stream")

    routes = [Route("/health", health), Route("/v1/models", models)]
    return Starlette(routes=[*routes, Route("/v1/completions", completions, methods=["POST"])])


async def _events(order: Order) -> AsyncIterator[bytes]:
    total = 0
    while (count := await order.counts.get()) is not None:
        total += count
        yield _event({"choices": [{"index": 0, "text": ""}]})
    yield _event({"choices": [], "usage": {"prompt_tokens": len(order.prompt), "completion_tokens": total}})
    yield b"data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a directory with an exported model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--float32", action="store_true", help="activations in fp32; without it as OpenVINO chooses")
    arguments = parser.parse_args()
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = KV_GB
    scheduler.enable_prefix_caching = True
    properties = {"INFERENCE_NUM_THREADS": arguments.threads}
    if arguments.float32:
        properties["INFERENCE_PRECISION_HINT"] = "f32"
    stepper = Stepper(genai.ContinuousBatchingPipeline(arguments.model, scheduler, "CPU", properties))
    stepper.start()
    uvicorn.run(application(stepper), host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
