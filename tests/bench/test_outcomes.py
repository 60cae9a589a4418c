"""Every way in which an answer can go wrong is counted as what it is."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from headway.bench import exchange
from headway.bench.client import Client, ClientSettings
from headway.bench.exchange import Deadlines
from headway.bench.metrics import distributions, rates
from headway.bench.slo import Slo
from headway.workload.call import Call
from tests.bench.asking import ENDPOINT, ask, client
from tests.bench.scripted import END, HEAD, RESET, Script, Server, answer, body, event, http_chunk, text, usage, whole
from tests.bench.virtual import run

FOUR = [text(" a"), text(" b"), text(" c"), text(" d", "length")]
JSON = "content-type: application/json"


ASKED = 40


def stream(*parts: bytes) -> Script:
    return [HEAD, *(http_chunk(part) for part in parts), END]


BROKEN: dict[str, tuple[Script, str]] = {
    "error body": (whole(200, b'{"error": {"message": "out of memory"}}', JSON), "error_in_answer"),
    "error body without a type": (whole(200, b'{"error": "x"}'), "malformed"),
    "error event": (body(text(" a"), {"error": {"message": "engine died"}}), "error_in_answer"),
    "error finish": (body(text(" a"), text("", "error")), "error_in_answer"),
    "vllm error object": (body({"object": "error", "message": "bad"}), "error_in_answer"),
    "object without choices": (whole(200, b'{"detail": "x"}', JSON), "error_in_answer"),
    "whole answer": (whole(200, b'{"choices": [{"message": {"content": "a b c d"}}]}', JSON), "not_streamed"),
    "empty body": (stream(), "empty"),
    "empty JSON": (whole(200, b"", JSON), "empty"),
    "only [DONE]": (stream(event(b"[DONE]")), "empty"),
    "no text": (body(text("", "length")), "empty"),
    "only comments": (stream(b": hello\n\n"), "malformed"),
    "HTML": (whole(200, b"<html>\n\nHi</html>\n", "content-type: text/html"), "malformed"),
    "not JSON": (body(text(" a"), b"{oops"), "malformed"),
    "not an object": (body(text(" a"), b"[1]"), "malformed"),
    "deep JSON": (body(b"[" * 100_000), "malformed"),
    "not UTF-8": (body(b'{"choices": [{"delta": {"content": "\xff"}}]}'), "malformed"),
    "choices of the wrong type": (body({"choices": 3}), "malformed"),
    "text of the wrong type": (body({"choices": [{"index": 0, "delta": {"content": 3}}]}), "malformed"),
    "delta of the wrong type": (body({"choices": [{"index": 0, "delta": "x"}]}), "malformed"),
    "no [DONE]": (stream(*map(event, FOUR)), "cut"),
    "no finish reason": (body(*FOUR[:3], text(" d")), "cut"),
    "no last bytes": ([HEAD, http_chunk(event(FOUR[0])), RESET], "cut"),
    "cut within an event": ([HEAD, http_chunk(event(FOUR[0])[:20]), RESET], "cut"),
    "reset before an answer": ([RESET], "reset"),
    "not HTTP": ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], "malformed"),
    "bad chunk length": ([HEAD, b"zz\r\n"], "cut"),
    "finish twice": (body(*FOUR, text("", "length")), "duplicated"),
    "text after the finish": (body(*FOUR, text(" e")), "duplicated"),
    "chunk after [DONE]": (stream(*map(event, FOUR), event(b"[DONE]"), event(text(" e"))), "duplicated"),
    "[DONE] twice": (stream(*map(event, FOUR), event(b"[DONE]"), event(b"[DONE]")), "duplicated"),
    "two choices": (body({"choices": [{"index": 1, "delta": {"content": "a"}}]}, *FOUR), "duplicated"),
    "429": (whole(429, b'{"error": {"message": "slow down"}}', JSON, "retry-after: 7"), "refused"),
    "503": (whole(503, b"busy", "retry-after: soon"), "refused"),
    "500": (whole(500, b'{"error": {"message": "x"}}', JSON), "http_error"),
    "404 without a body": (whole(404, b""), "http_error"),
    "301": (whole(301, b"", "location: http://elsewhere/"), "http_error"),
    "truncated": (body(text(" a"), text(" b", "length"), usage(10, 2)), "truncated"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_answers_are_named_and_never_enter_the_figures(name: str) -> None:
    script, outcome = BROKEN[name]
    record = ask(script, tokens=ASKED)
    assert (record.outcome, bool(record.error)) == (outcome, True)
    assert "\n" not in record.error
    assert distributions([record]) == {}
    figures = rates([record], Slo(ttft_s=1e9))
    assert all(figures.get(key, 0.0) == 0.0 for key in ("requests_per_s", "output_tokens_per_s", "slo_share"))


def test_a_good_answer_among_broken_ones_keeps_its_figures() -> None:
    good = ask(answer(0.5, [0.1] * 3))
    records = [good, *(ask(script, tokens=ASKED) for script, _ in BROKEN.values())]
    assert distributions(records) == distributions([good])


def test_every_chunk_twice_is_duplicated_but_a_repeating_model_is_not() -> None:
    words = [f" w{i}" for i in range(8)]
    doubled = [word for word in words for _ in range(2)]
    assert ask(body(*map(text, doubled), text("", "length")), tokens=16).outcome == "duplicated"
    same = [text(" ha") for _ in range(16)]
    assert ask(body(*same, text("", "length")), tokens=16).outcome == "ok"


def test_more_text_than_was_asked_for_is_duplicated() -> None:
    assert ask(body(*FOUR, usage(10, 4)), tokens=4, count=40).outcome == "duplicated"


def test_usage_of_fewer_tokens_than_chunks_is_not_believed() -> None:
    chunks = [text(f" w{i}", "length" if i == 11 else None) for i in range(12)]
    record = ask(body(*chunks, usage(10, 1)), tokens=12)
    assert (record.outcome, record.output_tokens, record.counted_by) == ("ok", 12, "chunks")
    assert record.usage_disagrees
    letters = [text("w", "length" if i == 29 else None) for i in range(30)]
    record = ask(body(*letters, usage(10, 12)), tokens=12)
    assert (record.outcome, record.output_tokens, record.counted_by) == ("ok", 12, "usage"), "a letter a chunk"


def test_an_early_stop_is_a_good_answer() -> None:
    assert ask(body(text(" a"), text(" b", "stop"), usage(10, 3)), tokens=100).outcome == "ok"


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SPARE_BYTES", 1000)
    monkeypatch.setattr(exchange, "BYTES_PER_TOKEN", 100)
    record = ask([HEAD, *[http_chunk(event(text(" on and on")))] * 1000], tokens=4)
    assert (record.outcome, record.error) == ("malformed", "the answer is larger than 1400 bytes")


def test_servers_that_never_send_done_can_be_measured() -> None:
    assert ask(stream(*map(event, FOUR)), needs_done=False).outcome == "ok"


@pytest.mark.parametrize(
    ("script", "limits", "at_s"),
    [
        ([HEAD, 100.0], {"first_text_s": 5.0}, 5.0),
        ([HEAD, http_chunk(b": ping\n\n"), 3.0, http_chunk(b": ping\n\n"), 100.0], {"first_text_s": 5.0}, 5.0),
        ([HEAD, 2.0, http_chunk(event(FOUR[0])), 100.0], {"silence_s": 4.0}, 6.0),
        ([HEAD, *[1.0, http_chunk(event(FOUR[0]))] * 50, 100.0], {"silence_s": 4.0, "whole_s": 9.5}, 9.5),
        ([100.0], {"first_text_s": 5.0}, 5.0),
    ],
)
def test_a_hang_ends_at_its_deadline(script: Script, limits: dict[str, float], at_s: float) -> None:
    record = ask(script, deadlines=replace(Deadlines(), **limits))
    assert (record.outcome, record.closed_s) == ("timeout", pytest.approx(at_s))


def test_nobody_there() -> None:
    async def nobody(server: Server) -> Any:
        return await client(server, deadlines=Deadlines(connect_s=3.0)).ask(Call("0", 1, 1), b"{}", 0.0, 0.0)

    assert run(nobody(Server([], refuses=True))).outcome == "unreachable"
    record = run(nobody(Server([], connect_s=50.0)))
    assert (record.outcome, record.closed_s) == ("timeout", pytest.approx(3.0))


def test_running_out_of_sockets_is_our_own_fault() -> None:
    async def no_socket(_: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def one() -> Any:
        asking = Client(ENDPOINT, ClientSettings(), connect=no_socket)
        return await asking.ask(Call("0", 1, 1), b"{}", 0.0, 0.0)

    record = run(one())
    assert (record.outcome, record.error) == ("unsent", "Too many open files")


def test_retry_after_is_waited_for_and_counts_as_latency() -> None:
    busy = whole(503, b"{}", JSON, "retry-after: 2")
    server = Server([busy, busy, answer(0.5, [0.1])])

    async def one() -> Any:
        asking = client(server, retries=2)
        record = await asking.ask(Call("0", 10, 2), asking.endpoint.body("hi", 2), 0.0, 0.0)
        asking.close()
        return record

    record = run(one())
    assert (record.outcome, record.retries) == ("ok", 2)
    assert record.arrivals_s[0] == pytest.approx(2 + 2 + 0.5)
    assert [at_s for at_s, _ in server.requests] == pytest.approx([0.0, 2.0, 4.0])


def test_a_kept_connection_that_the_server_closed_meanwhile_is_no_failure() -> None:
    server = Server([answer(0.5, []), [RESET], answer(0.5, [])])

    async def two() -> Any:
        asking = client(server)
        records = [await asking.ask(Call(str(i), 10, 1), b"{}", 0.0, 0.0) for i in range(2)]
        asking.close()
        return records

    assert [record.outcome for record in run(two())] == ["ok", "ok"]
    assert server.connections == 2


def test_what_is_sent() -> None:
    server = Server([answer(0.5, [])])

    async def one() -> None:
        asking = client(server)
        await asking.ask(Call("0", 10, 7), asking.endpoint.body("hi", 7), 0.0, 0.0)
        asking.close()

    run(one())
    assert server.requests[0][1] == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
