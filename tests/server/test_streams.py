"""Streams: characters that tokens cut, stop strings, pings, faults after the 200, clients that leave or don't read."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from headway.server.connection import JsonAnswer
from headway.server.engine import EngineFailed, Expired, InvalidRequest, NeverFits, Overloaded
from headway.server.errors import ClientGone
from headway.server.limits import Limits
from tests.server.live import MODEL, PATIENCE_S, Live, events, eventually, read_all, request_bytes, serving
from tests.server.scripted_engine import Step, Submit

HI = [{"role": "user", "content": "Hi"}]
BODY = {"model": MODEL, "messages": HI, "stream": True}
MIXED = "👋🏽 한글 👨‍👩‍👧 ďábelské"


def stream_text(live: Live, **fields: object) -> tuple[str, list[str]]:
    response = live.chat(stream=True, **fields)
    chunks = [item for item in events(response.text) if item != "[DONE]"]
    pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    return "".join(pieces), pieces


@pytest.mark.parametrize("max_tokens", range(1, 41))
def test_text_utf8_01_limits_inside_characters(live: Live, max_tokens: int) -> None:
    live.says(MIXED * 3)
    whole = live.chat(max_tokens=max_tokens).json()["choices"][0]
    assert whole["finish_reason"] == "length"
    content = whole["message"]["content"]
    assert (MIXED * 3).startswith(content)
    assert "\ufffd" not in content
    assert stream_text(live, max_tokens=max_tokens)[0] == content


def test_text_utf8_03_invalid_bytes_and_back(live: Live) -> None:
    byte_tokens = {live.text.tokens.raw_bytes_of(id): id for id in range(live.text.tokens.vocab)}
    raw = [b"a", b"\xff", b"b", b"\xed", b"c", b"\xf0", b"\x9f", b"\x91", b"\x8b", b"z"]
    live.draws([[byte_tokens[piece]] for piece in raw] + [[2]])
    expected = b"".join(raw).decode("utf-8", "replace")
    assert live.chat().json()["choices"][0]["message"]["content"] == expected == "a\ufffdb\ufffdc👋z"
    assert stream_text(live)[0] == expected


@pytest.mark.parametrize("per_step", [1, 2, 7])
def test_text_utf8_06_four_streams_of_mixed_scripts(live: Live, per_step: int) -> None:
    live.says(MIXED, per_step=per_step)
    results: list[tuple[str, list[str]]] = []
    threads = [threading.Thread(target=lambda: results.append(stream_text(live))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [text for text, _ in results] == [MIXED] * 4
    for _, pieces in results:
        assert not any("\ufffd" in piece for piece in pieces)
        # The first chunk has only the role, the last only the reason.
        assert all(pieces[1:-1])


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_text_utf8_12_stop_strings_on_every_path(live: Live, path: str, stream: bool, include: bool) -> None:
    live.says("one two three four five", per_step=2)
    body = {"model": MODEL, "stop": ["ee f", "nothing"], "stream": stream, "include_stop_str_in_output": include}
    body |= {"messages": HI} if "chat" in path else {"prompt": "x", "max_tokens": 100}
    response = live.post(path, body)
    answers = [item for item in events(response.text) if item != "[DONE]"] if stream else [response.json()]
    choices = [answer["choices"][0] for answer in answers]
    text = "".join(
        choice.get("text") or (choice.get("delta") or choice.get("message") or {}).get("content") or ""
        for choice in choices
    )
    assert text == ("one two three f" if include else "one two thr")
    assert choices[-1]["finish_reason"] == "stop"
    assert choices[-1]["stop_reason"] == "ee f"
    eventually(lambda: not live.engine.running)
    assert live.engine.drawn < len(live.text.tokens.encode("one two three four five")) + 2


def test_a_stop_string_ends_the_sequence_in_the_engine(live: Live) -> None:
    live.draws([live.text.tokens.encode("STOP")] + [[5]] * 100_000)
    assert live.chat(stop="STOP", n=2).json()["choices"][1]["message"]["content"] == ""
    assert len(live.engine.finished) == 2
    assert live.engine.drawn < 100


def test_api_compat_08_pings_while_a_prompt_is_computed(directory: Path) -> None:
    with serving(directory) as live, live.connect() as sock:
        live.draws([1e9, [5], [2]])
        sock.sendall(request_bytes("/v1/chat/completions", BODY, "Connection: close"))
        received = bytearray()

        def two_pings() -> bool:
            live.time.jump_from_outside(Limits().ping_s)
            if select.select([sock], [], [], 0)[0]:
                received.extend(sock.recv(65536))
            return received.count(b": ping\n\n") == 2

        eventually(two_pings)
        assert b"data:" not in received
        live.time.jump_from_outside(1e9)
        received += read_all(sock)
    assert b": ping" not in received.partition(b"data:")[2]
    assert b"data: [DONE]\n\n" in received


def test_a079_a108_a_fault_after_some_chunks(live: Live) -> None:
    for fault in (EngineFailed("block 7 at 0x7f"), RuntimeError("/secret")):
        live.draws([live.text.tokens.encode("Hello"), fault])
        response = live.chat(stream=True)
        assert response.status_code == 200
        items = events(response.text)
        assert items[-1].keys() == {"error"}
        assert items[-1]["error"]["type"] == "server_error"
        assert "[DONE]" not in response.text
        assert "0x7f" not in response.text
        assert "secret" not in response.text
        assert sum("error" in item for item in items) == 1
    with live.openai() as client:
        stream = client.chat.completions.create(model=MODEL, messages=HI, stream=True)
        with pytest.raises(openai.APIError):
            list(stream)


def test_one_choice_of_several_fails(live: Live) -> None:
    def reply(submit: Submit) -> Iterator[Step]:
        if submit.id.endswith("-1"):
            yield [5]
            yield EngineFailed("x")
        while True:
            yield [5]

    live.engine.reply = reply
    assert live.chat(n=3, max_tokens=200).status_code == 500
    eventually(lambda: not live.engine.running)


FAULTS = [
    (Overloaded("the queue is full", 2.5), 503, "overloaded"),
    (NeverFits("9 blocks are needed, but there are 4"), 400, "context_length_exceeded"),
    (InvalidRequest("`top_k` is odd"), 400, None),
    (Expired("late"), 504, "deadline_exceeded"),
    (EngineFailed("0x7f"), 500, "internal_error"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "status", "code"), FAULTS, ids=[type(row[0]).__name__ for row in FAULTS])
def test_a086_a_fault_before_the_first_token_has_a_status(
    live: Live, fault: Exception, status: int, code: str | None, stream: bool
) -> None:
    live.draws([0.01, fault])
    response = live.chat(stream=stream)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    if status == 503:
        assert response.headers["retry-after"] == "3"
    if status == 504:
        assert response.headers["x-should-retry"] == "false"


def test_a081_api_compat_06_full_queues(live: Live) -> None:
    before = live.metric("headway:requests_refused_total")
    live.engine.full = True
    for stream in (False, True):
        response = live.chat(stream=stream, n=2)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "3"
    assert live.metric("headway:requests_refused_total") == before + 2
    live.engine.full = False
    assert live.chat().status_code == 200


def test_a081_too_many_requests_at_once(directory: Path) -> None:
    with serving(directory, limits=Limits(requests=2, drain_s=2.0)) as live:
        live.draws([[5], 1e9])
        socks = [live.connect() for _ in range(2)]
        for sock in socks:
            sock.sendall(request_bytes("/v1/chat/completions", BODY))
        eventually(lambda: len(live.engine.running) == 2)
        response = live.chat()
        assert response.status_code == 503
        assert "retry-after" in response.headers
        assert live.get("/health").status_code == 200
        for sock in socks:
            sock.close()
        eventually(lambda: not live.engine.running)
        live.says("Hello")
        eventually(lambda: live.chat().status_code == 200)


@pytest.mark.parametrize("deadline", ["1", "1000000000.5"])
def test_a084_a_deadline_that_has_passed(live: Live, deadline: str) -> None:
    response = live.chat(headers=None)
    assert response.status_code == 200
    body = {"model": MODEL, "messages": HI}
    count = len(live.engine.submits)
    response = live.post("/v1/chat/completions", body, headers={"x-request-deadline": deadline})
    assert response.status_code == 504
    assert len(live.engine.submits) == count


def test_a084_a_deadline_to_come_is_passed_on(live: Live) -> None:
    body = {"model": MODEL, "messages": HI}
    response = live.post("/v1/chat/completions", body, headers={"x-request-deadline": "99999999999"})
    assert response.status_code == 200
    timeout_ns = live.engine.submits[0].timeout_ns
    assert timeout_ns is not None
    assert timeout_ns > 10**16
    odd = ("1e11", "9_999_999_999", "0x10", "9" * 400, "99999999999,1", "\u0669")
    for wrong in ("soon", "nan", "-1", "inf", "", *odd):
        headers = {"x-request-deadline": wrong.encode()}
        assert live.post("/v1/chat/completions", body, headers=headers).status_code == 400


@pytest.mark.parametrize("deadline", ["9" * 10, "9" * 11, "9" * 12, "9" * 15 + ".999999999"])
def test_a084_no_deadline_is_too_far_for_the_wire(live: Live, deadline: str) -> None:
    body = {"model": MODEL, "messages": HI, "n": 2}
    assert live.post("/v1/chat/completions", body, headers={"x-request-deadline": deadline}).status_code == 200
    assert not live.engine.running


LEAVE = [
    ("A074-cancel-hang-02-prefill-fin", True, [1e9], False),
    ("A074-prefill-rst", True, [1e9], True),
    ("A074-unstreamed-fin", False, [1e9], False),
    ("A074-unstreamed-rst", False, [1e9], True),
    ("A074-after-first-token-fin", True, [[5], 1e9], False),
    ("A074-after-first-token-rst", True, [[5], 1e9], True),
    ("cancel-hang-04-while-decoding", True, [[5], 0.1] * 100_000, False),
    ("A074-unstreamed-while-decoding", False, [[5], 0.1] * 100_000, False),
]


@pytest.mark.parametrize(("stream", "steps", "reset"), [row[1:] for row in LEAVE], ids=[row[0] for row in LEAVE])
def test_a_client_that_leaves(live: Live, stream: bool, steps: list[Step], reset: bool) -> None:
    live.draws(steps)
    before = live.metric('vllm:request_success_total{finished_reason="abort"')
    with live.connect() as sock:
        sock.sendall(request_bytes("/v1/chat/completions", BODY | {"stream": stream, "n": 2}))
        eventually(lambda: len(live.engine.running) == 2)
        if stream and isinstance(steps[0], list):
            sock.recv(100)
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: not live.engine.running)
    eventually(lambda: len(live.engine.cancelled) == 2)
    assert live.metric('vllm:request_success_total{finished_reason="abort"') == before + 2


def test_a076_cancel_hang_05_many_leave_at_once(live: Live) -> None:
    live.draws([[5], 1e9, *([[5]] * 100_000)])
    socks = [live.connect() for _ in range(100)]
    for sock in socks:
        sock.sendall(request_bytes("/v1/chat/completions", BODY | {"max_tokens": 200}))
    eventually(lambda: len(live.engine.submits) == 100)
    for sock in socks[:50]:
        sock.close()
    eventually(lambda: len(live.engine.cancelled) == 50)
    live.time.jump_from_outside(1e9)
    survivors = [read_until_done(sock) for sock in socks[50:]]
    assert all(received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n") for received in survivors)
    for sock in socks[50:]:
        sock.close()


def read_until_done(sock: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"0\r\n\r\n"):
        received += sock.recv(65536)
    return bytes(received)


def test_a077_cancel_hang_07_the_next_turn_of_a_session_that_was_left(live: Live) -> None:
    live.draws([1e9])
    with live.connect() as sock:
        sock.sendall(request_bytes("/v1/chat/completions", BODY | {"session_id": "s"}))
        eventually(lambda: bool(live.engine.running))
    live.says("Hello")
    assert live.chat(session_id="s").status_code == 200


def test_a_client_that_leaves_behind_a_pipelined_request(live: Live) -> None:
    live.draws([1e9])
    with live.connect() as sock:
        sock.sendall(request_bytes("/v1/chat/completions", BODY) + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: bool(live.engine.running))
    eventually(lambda: not live.engine.running)


def test_a072_a_client_that_does_not_read(directory: Path) -> None:
    with serving(directory, limits=Limits(write_stall_s=0.2, drain_s=2.0)) as live:
        live.draws([[5]] * 1000)
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", live.port))
            ids = [5] * 8
            sock.sendall(
                request_bytes(
                    "/v1/completions",
                    {"model": MODEL, "prompt": [ids] * 128, "max_tokens": 248, "stream": True, "logprobs": 20},
                )
            )
            eventually(lambda: len(live.engine.submits) == 128)
            eventually(lambda: not live.engine.running)
            assert live.engine.cancelled
            assert live.chat(max_tokens=1).status_code == 200


def test_drain_lets_streams_finish_and_takes_nothing_new(directory: Path) -> None:
    with serving(directory, limits=Limits(drain_s=1e6)) as live:
        ids = live.text.tokens.encode("one two three four")
        live.draws([ids[:1], 1000.0, ids[1:], [2]])
        with (
            httpx.Client(base_url=live.url, timeout=PATIENCE_S) as client,
            client.stream("POST", "/v1/chat/completions", json=BODY) as response,
        ):
            lines = response.iter_lines()
            next(lines)
            live.server.should_exit = True
            eventually(lambda: not live.is_listening())
            live.time.jump_from_outside(1000.0)
            text = "\n".join(lines)
        assert text.endswith("data: [DONE]\n")
        assert "four" in "".join(item["choices"][0]["delta"].get("content", "") for item in events(text)[:-1])


def test_drain_ends_what_takes_too_long_with_an_error(directory: Path) -> None:
    with serving(directory, limits=Limits(drain_s=1e6)) as live:
        live.draws([[5], 1e9])
        sock = live.connect()
        sock.sendall(request_bytes("/v1/chat/completions", BODY))
        eventually(lambda: bool(live.engine.running))
        live.server.should_exit = True
        eventually(lambda: live.server._app.inflight.draining)
        live.time.jump_from_outside(1e6)
        received = read_all(sock)
        sock.close()
    assert b"the server is stopping" in received
    assert b"[DONE]" not in received
    assert live.engine.cancelled


def test_a072_a_whole_answer_is_handed_over_as_it_is_read() -> None:
    sent: list[bytes] = []

    async def send(message: dict[str, Any]) -> None:
        if len(sent) == 3:
            await asyncio.sleep(60)
        sent.append(message.get("body", b""))

    async def run(body: bytes) -> None:
        await JsonAnswer(body, 0.05)({"type": "http"}, None, send)

    with pytest.raises(ClientGone):
        asyncio.run(run(bytes(10_000_000)))
    assert 0 < sum(map(len, sent)) < 200_000


def test_a134_tokens_that_are_counted_are_charged_to_the_request(directory: Path) -> None:
    with serving(directory, limits=Limits(held_bytes=20_000_000, drain_s=2.0)) as live:
        body = {"prompt": "a b " * 90_000}
        assert live.post("/tokenize", body).json()["count"] > 200_000
        inflight = live.server._app.inflight
        with inflight.request() as held:
            held.grow(10_000_000)
            assert live.post("/tokenize", body).status_code == 503
        assert live.post("/tokenize", {"prompt": "a b " * 200_000}).json()["error"]["code"] == "request_too_large"
        assert inflight.held_bytes == 0
        assert live.post("/tokenize", body).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a030_preempt_memory_09_logprobs_are_charged_to_the_request(directory: Path, stream: bool) -> None:
    with serving(directory, limits=Limits(held_bytes=1_000_000, drain_s=2.0)) as live:
        asked = {"prompt": [5] * 100, "echo": True, "logprobs": 20, "max_tokens": 0, "stream": stream}
        assert live.complete(**asked).status_code == 200
        answer = live.complete(**asked, n=8)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "request_too_large"
        assert len(live.engine.submits) == 1
        assert live.server._app.inflight.held_bytes == 0


def test_a030_a_whole_answer_that_grows_too_large_is_ended(directory: Path) -> None:
    with serving(directory, limits=Limits(held_bytes=200_000, drain_s=2.0)) as live:
        live.draws([[5]] * 100_000)
        answer = live.chat(logprobs=True, top_logprobs=20)
        assert answer.json()["error"]["code"] == "request_too_large"
        eventually(lambda: not live.engine.running)
        assert live.engine.drawn < 150
        assert live.chat(logprobs=True, top_logprobs=20, stream=True).status_code == 200


def test_while_draining_a_request_over_an_open_connection_is_refused(directory: Path) -> None:
    with serving(directory) as live:
        live.server._app.inflight.drain()
        response = live.chat()
        assert response.status_code == 503
        assert json.loads(response.text)["error"]["code"] == "overloaded"
        assert live.get("/health").status_code == 503
