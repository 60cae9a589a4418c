"""Where the server is, what it has, and how long its template is."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import pytest

from headway.bench.client import Client, ClientSettings
from headway.bench.connection import reason
from headway.bench.endpoint import EndpointError, endpoint
from headway.bench.probe import only_model, overhead
from headway.bench.tokens import ServerTokenizer, TokenizerError
from headway.bench.words import WORDS
from tests.bench.asking import client
from tests.bench.scripted import END, HEAD, Server, body, event, http_chunk, text, usage, whole
from tests.bench.virtual import run

JSON = "content-type: application/json"


@pytest.mark.parametrize(
    ("url", "expected", "api"),
    [
        ("localhost:8000", "http://localhost:8000/v1", "chat"),
        ("http://h", "http://h:80/v1", "chat"),
        ("https://h/v1/", "https://h:443/v1", "chat"),
        ("http://h:1/api/v2", "http://h:1/api/v2", "chat"),
        ("http://h:1/v1/completions", "http://h:1/v1", "completions"),
        ("http://h:1/v1/chat/completions", "http://h:1/v1", "chat"),
        ("http://[::1]:9", "http://[::1]:9/v1", "chat"),
        ("http://b\u00fccher.example", "http://xn--bcher-kva.example:80/v1", "chat"),
    ],
)
def test_urls(url: str, expected: str, api: str) -> None:
    made = endpoint(url)
    assert (made.url, made.api) == (expected, api)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h",
        "http://",
        "http://u:secret@h",
        "http://h?x=1",
        "http://h#x",
        "http://h:99999",
        "http://h:x",
        "http://h/a b",
        "http://a..b",
        f"http://{'a' * 64}.b",
    ],
)
def test_bad_urls_are_one_line(url: str) -> None:
    with pytest.raises(EndpointError, match=r"^URL: ") as caught:
        endpoint(url)
    assert "\n" not in str(caught.value)


def test_reserved_fields_cannot_be_overridden() -> None:
    with pytest.raises(EndpointError, match="stream"):
        endpoint("h", extra={"stream": False})
    sent = json.loads(endpoint("h", extra={"temperature": 0}, session_field="user").body("hi", 3, "s1"))
    assert (sent["temperature"], sent["user"]) == (0, "s1")
    assert json.loads(endpoint("http://h/v1/completions").body("hi", 3))["prompt"] == "hi"


def asked(server: Server, name: str = "") -> Client:
    return Client(endpoint("http://test", model=name), ClientSettings(), connect=server.connect)


def models(*names: str) -> Server:
    return Server([whole(200, json.dumps({"data": [{"id": name} for name in names]}).encode(), JSON)])


def test_the_only_model_is_taken_and_another_must_be_named() -> None:
    assert run(only_model(asked(models("a"))))["id"] == "a"
    assert run(only_model(asked(models("a", "b"), "b")))["id"] == "b"
    for server, name in ((models("a", "b"), ""), (models("a"), "c"), (models(), "")):
        with pytest.raises(EndpointError, match="--model"):
            run(only_model(asked(server, name)))


@pytest.mark.parametrize(
    "answer", [whole(404, b""), whole(200, b"nonsense"), whole(200, b'{"data": 3}', JSON), ["reset"]]
)
def test_a_server_without_models_is_one_line(answer: Any) -> None:
    with pytest.raises(EndpointError, match="models"):
        run(only_model(asked(Server([answer]))))


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_that_lists_no_models_is_asked_for_the_one_that_is_named(status: int) -> None:
    assert run(only_model(asked(Server([whole(status, b"")]), "m"))) == {"id": "m"}
    with pytest.raises(EndpointError, match=f"models: status {status}; --model NAME"):
        run(only_model(asked(Server([whole(status, b"")]))))
    with pytest.raises(EndpointError, match=r"models: status 500$"):
        run(only_model(asked(Server([whole(500, b"")]), "m")))


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (Server([[1e9]]), "no answer in 120 s"),
        (Server([], connect_s=1e9), "no connection in 10 s"),
        (Server([whole(200, b'{"data": null}', JSON)]), "it is no list of models"),
        (Server([whole(200, b"<html>")]), "it is no list of models"),
    ],
)
def test_what_keeps_a_server_from_being_known_is_said(server: Server, says: str) -> None:
    with pytest.raises(EndpointError, match=f"^http://test:80/v1/models: {says}$"):
        run(only_model(asked(server)))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('::1', 80)"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "certificate verify failed"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_why_there_is_no_connection(error: Exception, words: str) -> None:
    assert reason(error) == words


def test_a_server_with_keys_is_told_apart() -> None:
    with pytest.raises(EndpointError, match=r"status 401 .*set HEADWAY_API_KEY"):
        run(only_model(asked(Server([whole(401, b"{}", JSON)]))))
    with pytest.raises(EndpointError, match=r"http_error: status 401.*set HEADWAY_API_KEY"):
        run(overhead(asked(Server([whole(401, b"{}", JSON)]), "m"), ["a"], 0))


def template(tokens: int, per_word: int = 1) -> Server:
    """Adds `tokens` to every prompt."""
    server = Server([])

    def reply(number: int) -> Any:
        count = len(server.requests[number][1]["messages"][0]["content"].split())
        return body(text(" a", "length"), usage(tokens + per_word * count, 1))

    server.scripts = reply
    return server


def test_the_template_is_measured_and_inexact_words_are_told() -> None:
    assert run(overhead(client(template(17)), list(WORDS), 0)) == (17, None)
    assert "256 tokens more" in str(run(overhead(client(template(17, 2)), list(WORDS), 0))[1])
    silent = Server(lambda _: body(text(" a", "length")))
    assert "no usage" in str(run(overhead(client(silent), list(WORDS), 0))[1])
    endless = Server([[HEAD, http_chunk(event(text(" a", "length"))), END]])
    with pytest.raises(EndpointError, match=r"cut: ended without \[DONE\] \(--no-done"):
        run(overhead(client(endless), list(WORDS), 0))
    with pytest.raises(EndpointError, match="http_error: status 500: oops"):
        run(overhead(client(Server([whole(500, b"oops")])), list(WORDS), 0))


def test_the_servers_tokenizer_counts_or_is_refused() -> None:
    good = Server([whole(200, b'{"tokens": [1, 2, 3]}', JSON)] * 2)
    assert run(ServerTokenizer(client(good)).count(["a", "b"])) == [3, 3]
    assert good.requests[0][1]["add_special_tokens"] is False
    for bad in (whole(404, b""), whole(200, b"[]"), whole(200, b'{"tokens": 3}', JSON), whole(200, b"{}", JSON)):
        with pytest.raises(TokenizerError, match="/tokenize"):
            run(ServerTokenizer(client(Server([bad]))).count(["a"]))
