"""The benchmark's HTTP client against a server that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from benchmarks.serving.client import run_job
from benchmarks.serving.jobs import Job
from benchmarks.serving.measurement import Answer, measure

JOB = Job("T", requests=6, concurrency=2, shared_tokens=0, own_tokens=4, output_tokens=3)
PROMPTS = JOB.prompts(0, 256)

Reply = Callable[[dict[str, object]], bytes]


class Server:
    """Answers each request with `reply(body)`, and notes the bodies and the most connections at one time."""

    def __init__(self, reply: Reply) -> None:
        self.bodies: list[dict[str, object]] = []
        self.most = 0
        self._open = 0
        self._reply = reply

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        self.bodies.append(body)
        self._open += 1
        self.most = max(self.most, self._open)
        await asyncio.sleep(0)
        writer.write(self._reply(body))
        await writer.drain()
        self._open -= 1
        writer.close()


def stream(*events: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return head + b"".join(b"data: " + event + b"\n\n" for event in events)


def text(piece: str) -> bytes:
    return json.dumps({"choices": [{"index": 0, "text": piece}]}).encode()


def usage(prompt: int, completion: int) -> bytes:
    return json.dumps({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}).encode()


async def ask(reply: Reply) -> tuple[list[Answer], Server]:
    script = Server(reply)
    server = await asyncio.start_server(script.handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        answers, share = await run_job(f"http://127.0.0.1:{port}", "m", JOB, PROMPTS)
    assert share > 0
    return answers, script


async def test_right_answers() -> None:
    answers, server = await ask(lambda _: b"".join((stream(b'{"choices": []}', text("a")), stream_end(4, 3))))
    measured = measure("x", JOB, 0, answers)
    assert (measured.right, measured.wrong, measured.failed) == (6, 0, 0)
    assert all(a.sent_s <= a.first_s <= a.last_s for a in answers)
    assert server.most <= JOB.concurrency
    assert sorted(json.dumps(body["prompt"]) for body in server.bodies) == sorted(map(json.dumps, PROMPTS))
    assert all(body["ignore_eos"] is True and body["max_tokens"] == 3 for body in server.bodies)


def stream_end(prompt: int, completion: int) -> bytes:
    return b": a comment\n\ndata: " + text("b") + b"\n\ndata: " + usage(prompt, completion) + b"\n\ndata: [DONE]\n\n"


async def test_an_answer_of_another_length_is_wrong() -> None:
    answers, _ = await ask(lambda body: stream(text("a"), usage(4, 2 if body["prompt"] == PROMPTS[0] else 3)))
    measured = measure("x", JOB, 0, answers)
    assert (measured.right, measured.wrong, measured.failed) == (5, 1, 0)
    assert measured.errors == ("4 tokens in, 2 out",)


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy",
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndata: {}\n\n",
        stream(text("a")),
        stream(usage(4, 3)),
        stream(text("a"), b'{"error": {"message": "lost"}}'),
        stream(b"{"),
        stream(b'{"choices": 7}'),
    ],
    ids=["status", "closed", "cut off", "no usage", "no text", "error event", "not JSON", "not a chunk"],
)
async def test_what_is_no_answer_is_a_failure(reply: bytes) -> None:
    answers, _ = await ask(lambda _: reply)
    measured = measure("x", JOB, 0, answers)
    assert (measured.right, measured.wrong, measured.failed) == (0, 0, 6)
    assert measured.errors
