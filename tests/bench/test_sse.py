"""Odd framings: the events of a stream do not depend on how its bytes are cut or how its lines end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.bench import sse
from headway.bench.sse import EventParser, StreamError
from tests.bench.asking import ask
from tests.bench.scripted import END, HEAD, event, http_chunk, text, usage

LINES = st.lists(
    st.sampled_from(
        ["data: a", "data:b", "data:  c", "data", "data:", "", "", ": comment", "event: x", "id: 7", "dat: no"]
    )
)


def parsed(raw: bytes, cuts: list[int]) -> list[bytes]:
    parser = EventParser()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    return [found for a, b in itertools.pairwise(edges) for found in parser.feed(raw[a:b])]


def expected(lines: list[str]) -> list[bytes]:
    events: list[bytes] = []
    data: list[str] = []
    for line in lines:
        if not line and data:
            events.append("\n".join(data).encode())
        if not line:
            data = []
        elif line == "data" or line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
    return events


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 200)), st.booleans())
def test_cuts_and_line_ends_change_nothing(lines: list[str], end: str, cuts: list[int], bom: bool) -> None:
    raw = ("\ufeff" if bom else "").encode() + "".join(line + end for line in lines).encode()
    assert parsed(raw, cuts) == expected(lines)


def test_an_event_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    for part in (b"data: " + b"x" * 200, b"data: x\n" * 60):
        with pytest.raises(StreamError, match="100 bytes"):
            EventParser().feed(part)
    parser = EventParser()
    assert sum(len(parser.feed(b"data: " + b"x" * 50 + b"\n\n")) for _ in range(100)) == 100
    parser.feed(b": " + b"x" * 50 + b"\n")


WORDS = [text(" a"), text(" b"), text(" c"), text(" d", "length"), usage(10, 4)]
PLAIN = b"".join(map(event, WORDS)) + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("plain", PLAIN),
        ("CRLF", PLAIN.replace(b"\n", b"\r\n")),
        ("comments between", PLAIN.replace(b"\n\n", b"\n\n: ping\n\n")),
        ("no space", PLAIN.replace(b"data: ", b"data:")),
        ("named events", PLAIN.replace(b"data: ", b"event: message\ndata: ")),
        ("role only first", event(text("", role="assistant")) + PLAIN),
        ("empty deltas", event(text("")) + PLAIN.replace(b"\n\n", b"\n\n" + event(text("")), 3)),
        ("null content", event({"choices": [{"index": 0, "delta": {"content": None}}]}) + PLAIN),
        ("null choices", event({"choices": None}) + PLAIN),
        ("no usage", PLAIN.replace(event(usage(10, 4)), b"")),
        (
            "usage in the last text",
            PLAIN.replace(event(usage(10, 4)), b"").replace(b'"choices"', b'"usage": null, "choices"'),
        ),
        (
            "finish on its own",
            PLAIN.replace(b'"length"', b"null").replace(event(usage(10, 4)), event(text("", "length"))),
        ),
        ("completions", PLAIN.replace(b'"delta": {"content": ', b'"text": ').replace(b'"}, "finish', b'", "finish')),
        ("reasoning", PLAIN.replace(b'"content"', b'"reasoning_content"')),
    ],
)
def test_odd_streams_are_good_answers(name: str, raw: bytes) -> None:
    for size in (len(raw), 7, 1):
        parts = [http_chunk(raw[i : i + size]) for i in range(0, len(raw), size)]
        record = ask([HEAD, *parts, END])
        assert (record.outcome, record.error, record.output_tokens) == ("ok", "", 4), name


def test_several_tokens_a_chunk_are_one_arrival() -> None:
    steps = [HEAD, 1.0, http_chunk(event(text(" a b c"))), 0.5, http_chunk(event(text(" d e f", "length")))]
    record = ask([*steps, http_chunk(event(usage(10, 6)) + event(b"[DONE]")), END], tokens=6)
    assert (record.outcome, record.output_tokens, record.arrivals_s) == ("ok", 6, [1.0, 1.5])


def test_several_chunks_read_at_once_are_one_arrival() -> None:
    record = ask([HEAD, 1.0, *(http_chunk(event(fields)) for fields in WORDS), http_chunk(event(b"[DONE]")), END])
    assert (record.num_chunks, record.arrivals_s, record.output_tokens) == (4, [1.0], 4)


def test_cached_tokens_and_receipt_are_read() -> None:
    told = usage(10, 4, prompt_tokens_details={"cached_tokens": 8}, headway={"queue_s": 0.25})
    record = ask([HEAD, *(http_chunk(event(fields)) for fields in [*WORDS[:4], told, b"[DONE]"]), END])
    assert (record.cached_tokens, record.receipt) == (8, {"queue_s": 0.25})


@pytest.mark.parametrize(
    "bad", [{"prompt_tokens": -1}, {"completion_tokens": "4"}, {"prompt_tokens_details": 3}, {"headway": 1}]
)
def test_nonsense_in_usage_is_as_if_absent(bad: dict[str, object]) -> None:
    told = {"choices": [], "usage": bad}
    record = ask([HEAD, *(http_chunk(event(fields)) for fields in [*WORDS[:4], told, b"[DONE]"]), END])
    assert (record.outcome, record.usage_output_tokens, record.receipt) == ("ok", None, None)
