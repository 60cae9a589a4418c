"""Raw sockets: what is not quite HTTP, too large, too slow, or too much at once."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import sleep

import pytest

from headway.server.limits import Limits
from tests.server.live import MODEL, Live, eventually, read_all, request_bytes, serving

BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
LIMITS = Limits(body_bytes=100_000, connections=50, drain_s=2.0)


@pytest.fixture(scope="module")
def strict(directory: Path) -> Iterator[Live]:
    with serving(directory, limits=LIMITS) as live:
        yield live


def exchange(live: Live, data: bytes) -> bytes:
    """Sends as much as the server takes, and reads until it closes."""
    with live.connect() as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(data)
        return read_all(sock)


def kept_bytes(live: Live) -> list[int]:
    """Of each connection, what came of a header that is not complete."""
    return [len(one.conn.trailing_data[0]) for one in list(live.server.server_state.connections)]


def status_of(received: bytes) -> int:
    assert received.startswith(b"HTTP/1.1 "), received[:200]
    return int(received[9:12])


def error_of(received: bytes) -> dict[str, object]:
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return dict(error)


def test_a001_one_header_of_50_mb(strict: Live) -> None:
    received = exchange(strict, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 50_000_000)
    assert status_of(received) == 431
    error_of(received)


def test_a002_20000_headers(strict: Live) -> None:
    headers = b"".join(b"X%d: 1\r\n" % i for i in range(20_000))
    assert status_of(exchange(strict, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")) == 431


def test_a002_more_headers_than_anybody_needs(strict: Live) -> None:
    headers = b"".join(b"a:\r\n" for _ in range(500))
    received = exchange(strict, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
    assert status_of(received) == 431
    error_of(received)


def test_a004_slow_headers(strict: Live) -> None:
    socks = [strict.connect() for _ in range(40)]
    for sock in socks[:20]:
        sock.sendall(b"GET /health HT")
    eventually(lambda: sorted(map(bool, kept_bytes(strict))) == [False] * 20 + [True] * 20)
    strict.time.jump_from_outside(LIMITS.header_timeout_s)
    for sock in socks[:20]:
        assert status_of(read_all(sock)) == 408
    for sock in socks[20:]:
        assert read_all(sock) == b""
    for sock in socks:
        sock.close()
    eventually(lambda: not strict.server.server_state.connections)
    assert strict.get("/health").status_code == 200


def test_a004_a_header_that_drips(strict: Live) -> None:
    with strict.connect() as sock:
        try:
            for _ in range(20):
                sock.sendall(b"a")
                strict.time.jump_from_outside(LIMITS.header_timeout_s / 10)
                sleep(0.01)
        except OSError:
            pass
        assert read_all(sock)[9:12] in (b"408", b"")
    eventually(lambda: not strict.server.server_state.connections)


def test_a_slow_second_header_on_one_connection(strict: Live) -> None:
    with strict.connect() as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: b"ok" in sock.recv(65536))
        sock.sendall(b"GET /hea")
        eventually(lambda: any(kept_bytes(strict)))
        strict.time.jump_from_outside(LIMITS.header_timeout_s)
        assert status_of(read_all(sock)) == 408


def test_a_slow_body(strict: Live) -> None:
    whole = request_bytes("/v1/chat/completions", BODY)
    with strict.connect() as sock:
        sock.sendall(whole[:-5])
        eventually(lambda: strict.server._app.inflight.held_bytes == len(whole[:-5].partition(b"\r\n\r\n")[2]))
        strict.time.jump_from_outside(LIMITS.body_timeout_s)
        received = read_all(sock)
    assert status_of(received) == 408
    error_of(received)
    assert not strict.engine.submits


def test_an_idle_connection_is_closed(strict: Live) -> None:
    with strict.connect() as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = bytearray()
        while b"ok" not in received:
            received += sock.recv(65536)
        assert status_of(received) == 200
        strict.time.jump_from_outside(LIMITS.keep_alive_s)
        assert read_all(sock) == b""


def test_a008_a_chunked_body_without_end(strict: Live) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
    received = exchange(strict, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 1000)
    assert status_of(received) == 413
    error_of(received)


def test_a008_a_declared_body_that_is_too_large(strict: Live) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    received = exchange(strict, head + b"Content-Length: 100001\r\nExpect: 100-continue\r\n\r\n")
    assert status_of(received) == 413


def test_a_chunked_body_is_served(strict: Live) -> None:
    body = json.dumps(BODY).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    data = b"".join(b"%x\r\n%s\r\n" % (len(body[i : i + 9]), body[i : i + 9]) for i in range(0, len(body), 9))
    received = exchange(strict, head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + data + b"0\r\n\r\n")
    assert status_of(received) == 200


BAD = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "http-0.9": b"GET /health\r\n\r\n",
    "no-host": b"GET /health HTTP/1.1\r\n\r\n",
    "two-hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    "two-lengths": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "negative-length": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "odd-encoding": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    "both": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "nul": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    "space-in-name": b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "bad-chunk": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_request(strict: Live, name: str) -> None:
    received = exchange(strict, BAD[name])
    assert 400 <= status_of(received) <= 501
    error_of(received)
    assert strict.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil.example@localhost", 400),
        ("localhost/path", 400),
        ("", 400),
        ("localhost:x", 400),
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/v1/models", "/health"])
def test_a012_hosts(strict: Live, host: str, status: int, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert status_of(exchange(strict, request.encode())) == status


def test_a012_more_hosts_may_be_allowed(directory: Path) -> None:
    with serving(directory, allowed_hosts=("my.name",)) as live:
        assert live.get("/health", headers={"host": "my.name:80"}).status_code == 200
        assert live.get("/health", headers={"host": "other.name"}).status_code == 403


def test_a014_pipelining(strict: Live) -> None:
    requests = [request_bytes("/tokenize", {"prompt": "x" * (i + 1)}) for i in range(100)]
    last = request_bytes("/tokenize", {"prompt": "one two"}, "Connection: close")
    received = exchange(strict, b"".join([*requests, last]))
    bodies = [json.loads(part[: part.index(b"}") + 1]) for part in received.split(b"\r\n\r\n")[1:]]
    tokens = strict.text.tokens
    assert [body["tokens"] for body in bodies[:-1]] == [tokens.encode("x" * (i + 1)) for i in range(100)]
    assert bodies[-1]["tokens"] == tokens.encode("one two")


def test_a_fault_in_a_second_request_never_answers_the_first(strict: Live) -> None:
    strict.engine.reset()
    strict.draws([0.2, [2]])
    received = exchange(strict, request_bytes("/v1/chat/completions", BODY) + b"\x00\x01 nonsense\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d{3}) ", received) == [b"200", b"400"]


def test_a134_more_connections_than_allowed(strict: Live) -> None:
    socks: list[socket.socket] = []
    for _ in range(LIMITS.connections + 10):
        sock = strict.connect()
        sock.sendall(b"GET ")
        socks.append(sock)
    eventually(lambda: len(strict.server.server_state.connections) <= LIMITS.connections)
    for sock in socks:
        sock.close()
    eventually(lambda: not strict.server.server_state.connections)
    assert strict.get("/health").status_code == 200


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "POST"])
@pytest.mark.parametrize("path", ["/metrics", "/v1/models", "/health"])
def test_a066_methods(strict: Live, method: str, path: str) -> None:
    request = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
        "Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
    )
    received = exchange(strict, request.encode())
    assert status_of(received) == 405
    assert b"access-control" not in received.lower()


def test_a066_head(strict: Live) -> None:
    received = exchange(strict, b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status_of(received) == 200
    assert received.endswith(b"\r\n\r\n")
    received = exchange(strict, b"HEAD /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status_of(received) == 404
    assert received.endswith(b"\r\n\r\n")


def test_an_upgrade_is_not_taken(strict: Live) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert status_of(exchange(strict, request)) == 200


def test_http_1_0_without_a_host(strict: Live) -> None:
    received = exchange(strict, b"GET /health HTTP/1.0\r\n\r\n")
    assert status_of(received) == 200
    assert status_of(exchange(strict, b"GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n")) == 403


def test_a134_all_bodies_together_are_bounded(directory: Path) -> None:
    with serving(directory, limits=Limits(held_bytes=20_000, drain_s=2.0)) as live:
        first = request_bytes("/v1/chat/completions", BODY | {"metadata": "x" * 15_000})
        with live.connect() as sock:
            sock.sendall(first[:14_000])
            eventually(lambda: live.server._app.inflight.held_bytes > 10_000)
            received = exchange(live, first)
            assert status_of(received) == 503
            assert b"retry-after: 1" in received
            sock.sendall(first[14_000:])
            assert status_of(sock.recv(65536)) == 200
        eventually(lambda: live.server._app.inflight.held_bytes == 0)
