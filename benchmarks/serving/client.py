"""The load: token-id prompts through /v1/completions, streamed, a fixed number open at one time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

import httpx
import msgspec

from .jobs import Job
from .measurement import Answer

JOB_TIMEOUT_S = 1800.0
EVENT_BYTES = 1 << 20
_DATA = b"data:"


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw] = []
    usage: _Usage | None = None
    error: msgspec.Raw | None = None


_decoder = msgspec.json.Decoder(_Chunk)


async def run_job(url: str, model: str, job: Job, prompts: Sequence[Sequence[int]]) -> tuple[list[Answer], float]:
    """The answers, in the order of the prompts, and the CPU share of this process meanwhile."""
    waiting = iter(enumerate(prompts))
    answers: list[Answer | None] = [None] * len(prompts)
    # A connection a request: servers close idle ones at moments of their own choosing.
    limits = httpx.Limits(max_connections=job.concurrency, max_keepalive_connections=0)
    timeout = httpx.Timeout(JOB_TIMEOUT_S, connect=10)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    http = httpx.AsyncClient(base_url=url, limits=limits, timeout=timeout, trust_env=False)
    async with http, asyncio.TaskGroup() as tasks:
        for _ in range(job.concurrency):
            tasks.create_task(_worker(http, model, job, waiting, answers))
    share = (time.process_time() - cpu_s) / (time.perf_counter() - began_s)
    return [answer for answer in answers if answer is not None], share


async def _worker(
    http: httpx.AsyncClient,
    model: str,
    job: Job,
    waiting: Iterator[tuple[int, Sequence[int]]],
    answers: list[Answer | None],
) -> None:
    for index, prompt in waiting:
        answers[index] = await _ask(http, model, prompt, job.output_tokens)


async def _ask(http: httpx.AsyncClient, model: str, prompt: Sequence[int], output_tokens: int) -> Answer:
    body = msgspec.json.encode(
        {
            "model": model,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
    sent_s = time.perf_counter()
    try:
        async with http.stream(
            "POST", "/v1/completions", content=body, headers={"content-type": "application/json"}
        ) as response:
            if response.status_code != 200:
                text = (await response.aread())[:200].decode(errors="replace")
                return Answer(sent_s, error=f"status {response.status_code}: {text}")
            return await _read(response, sent_s)
    except (httpx.HTTPError, msgspec.MsgspecError) as error:
        return Answer(sent_s, error=f"{type(error).__name__}: {error}"[:200])


async def _read(response: httpx.Response, sent_s: float) -> Answer:
    first_s, last_s, usage = 0.0, 0.0, None
    rest = b""
    async for data in response.aiter_bytes():
        now_s = time.perf_counter()
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > EVENT_BYTES:
            return Answer(sent_s, error=f"an event is longer than {EVENT_BYTES} bytes")
        for line in lines:
            chunk = _chunk(line)
            if chunk is None:
                continue
            if chunk.error is not None:
                return Answer(sent_s, error=bytes(chunk.error)[:200].decode(errors="replace"))
            usage = chunk.usage or usage
            if chunk.choices:
                first_s, last_s = first_s or now_s, now_s
    if usage is None or not first_s:
        return Answer(sent_s, error="the stream ended without text or without usage")
    return Answer(sent_s, first_s, last_s, usage.prompt_tokens, usage.completion_tokens)


def _chunk(line: bytes) -> _Chunk | None:
    """None for comments, empty lines and the end mark."""
    payload = line[len(_DATA) :].strip() if line.startswith(_DATA) else b""
    return _decoder.decode(payload) if payload and payload != b"[DONE]" else None
