"""A server on a real loopback port, in a thread of this process."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import openai

from headway.server.app import build_app
from headway.server.limits import Limits
from headway.server.model_text import ModelText
from headway.server.serve import Server
from headway.server.settings import Settings
from tests.passing_time import PassingTime
from tests.server.scripted_engine import ScriptedEngine, Step

MODEL = "tiny"
PATIENCE_S = 120.0
"""More than any machine needs, however busy it is."""


@dataclass
class Live:
    engine: ScriptedEngine
    text: ModelText
    port: int
    server: Server
    time: PassingTime
    """Deadlines of the server, and pauses in its answers, end when a test says so: `time.jump_from_outside`."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, text: str, *, per_step: int = 1, end: bool = True) -> None:
        """From now on every request draws this text, then the end token."""
        ids = self.text.tokens.encode(text) + ([self.text.eos_token_ids[0]] if end else [])
        self.draws([ids[i : i + per_step] for i in range(0, len(ids), per_step)])

    def draws(self, steps: list[Step]) -> None:
        self.engine.reply = lambda _: steps

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S) as client:
            if isinstance(body, bytes):
                options.setdefault("headers", {"content-type": "application/json"})
                return client.post(path, content=body, **options)
            return client.post(path, json=body, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S) as client:
            return client.get(path, **options)

    def chat(self, **fields: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]} | fields
        return self.post("/v1/chat/completions", body)

    def complete(self, **fields: Any) -> httpx.Response:
        return self.post("/v1/completions", {"model": MODEL, "prompt": "Hello"} | fields)

    def scrape(self) -> list[str]:
        sleep(0.3)  # scrapes share a snapshot for a quarter of a second
        return self.get("/metrics").text.splitlines()

    def metric(self, name: str, lines: list[str] | None = None) -> float:
        lines = self.scrape() if lines is None else lines
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def is_listening(self) -> bool:
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return False
        return True

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def openai(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S, **options)


def request_bytes(path: str, body: dict[str, Any], *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data


def read_all(sock: socket.socket) -> bytes:
    """Until the server closes."""
    received = bytearray()
    try:
        while part := sock.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return bytes(received)


def events(text: str) -> list[Any]:
    """Payloads of a stream's events; comments are left out, [DONE] stays a string."""
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


def eventually(holds: Callable[[], bool]) -> None:
    end = monotonic() + PATIENCE_S
    while not holds():
        assert monotonic() < end, "it never came true"
        sleep(0.01)


@contextmanager
def serving(directory: Path, *, limits: Limits | None = None, **options: Any) -> Iterator[Live]:
    text = ModelText.from_directory(directory)
    hello = [*text.tokens.encode("Hello world"), text.eos_token_ids[0]]
    engine = ScriptedEngine(text.tokens.vocab, lambda _: [[token] for token in hello])
    settings = Settings(model=MODEL, directory=directory, limits=limits or Limits(drain_s=2.0), **options)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = Server(build_app(engine, settings), settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    eventually(lambda: server.started)
    try:
        time = PassingTime(server.servers[0].get_loop())
        yield Live(engine, text, listener.getsockname()[1], server, time)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
