"""Laws of text on its way out: however tokens and bytes are cut, the text is the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.engine.messages import Ended, Submit
from headway.scheduler.receipt import Receipt
from headway.scheduler.request import Sampling
from headway.server.choices import Choice, Ending, Piece
from headway.server.engine import Delta
from headway.server.literals import any_of
from headway.server.prompt import Prompt
from headway.server.stops import StopStrings
from headway.server.text import TokenText, Utf8Stream
from tests.server.model_files import build_metaspace_tokenizer, build_tokenizer

TOKENS = TokenText(build_tokenizer())
METASPACE = TokenText(build_metaspace_tokenizer())
letters = st.text("ab", max_size=40)
stops = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4).map(tuple)


def chunked(draw: st.DrawFn, whole: str | bytes | list[int]) -> list[str | bytes | list[int]]:
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def cut_by_the_book(text: str, strings: tuple[str, ...], include: bool) -> tuple[str, str | None]:
    """The definition: the least end wins; at one end, the longest string."""
    for end in range(len(text) + 1):
        found = [string for string in strings if text[:end].endswith(string)]
        if found:
            longest = max(found, key=len)
            return text[: end if include else end - len(longest)], longest
    return text, None


@given(st.data(), letters, stops, st.booleans())
def test_stop_strings_do_not_depend_on_chunks(
    data: st.DataObject, text: str, strings: tuple[str, ...], include: bool
) -> None:
    matcher = StopStrings(strings, include=include)
    sent, stopped_by = "", None
    for part in data.draw(st.composite(chunked)(text)):
        emitted = matcher.feed(part)
        sent += emitted.text
        stopped_by = emitted.stopped_by
        if stopped_by is not None:
            break
    else:
        sent += matcher.flush()
    assert (sent, stopped_by) == cut_by_the_book(text, strings, include)


@given(letters, stops)
def test_only_what_may_begin_a_stop_string_is_held_back(text: str, strings: tuple[str, ...]) -> None:
    matcher = StopStrings(strings)
    emitted = matcher.feed(text)
    if emitted.stopped_by is not None:
        return
    held = text[len(emitted.text) :]
    assert not held or any(string.startswith(held) for string in strings)
    longer = [text[start:] for start in range(len(text)) if any(string.startswith(text[start:]) for string in strings)]
    assert held == (longer[0] if longer else "")


def test_text_utf8_08_a_long_stop_string_holds_nothing_back_that_can_not_begin_it() -> None:
    matcher = StopStrings(("x" * 40,))
    assert matcher.feed("a").text == "a"
    assert matcher.feed("bx").text == "b"
    assert matcher.feed("xxx").text == ""
    assert matcher.feed("c").text == "xxxxc"


@given(st.data(), st.one_of(st.text().map(str.encode), st.binary(max_size=60)))
def test_utf8_does_not_depend_on_chunks(data: st.DataObject, raw: bytes) -> None:
    stream = Utf8Stream()
    parts = [stream.feed(part) for part in data.draw(st.composite(chunked)(raw))]
    whole = raw.decode("utf-8", "replace")
    text = "".join(parts)
    # What is missing is one unfinished character at the very end.
    assert text in (whole, whole.removesuffix("\ufffd"))


@given(st.data(), st.text(max_size=30))
def test_valid_text_never_shows_a_replacement_character(data: st.DataObject, text: str) -> None:
    stream = Utf8Stream()
    parts = [stream.feed(part) for part in data.draw(st.composite(chunked)(text.encode("utf-8", "replace")))]
    assert "".join(parts) == text.encode("utf-8", "replace").decode()
    assert all("\ufffd" not in part for part in parts) or "\ufffd" in text


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=40))
def test_tokens_decode_to_what_was_encoded(text: str) -> None:
    ids = TOKENS.encode(text, add_special_tokens=False)
    if not any(token in TOKENS.special.values() for token in ids):
        assert TOKENS.decode(ids) == text
    assert TOKENS.decode(TOKENS.encode_plain(text)) == text


@given(st.text("ab \u2581한👋!", max_size=20))
def test_metaspace_and_byte_fallback(text: str) -> None:
    pieces = text.replace(" ", "\u2581")
    ids = METASPACE.encode(pieces, add_special_tokens=False)
    assert METASPACE.decode(ids) == pieces.replace("\u2581", " ")


def drawn_by(token_ids: list[int], steps: list[list[int]], ending: Ending) -> tuple[str, str | None, object]:
    submit = Submit("r", b"", 1, len(token_ids) + 1, sampling=Sampling(), stop_token_ids=ending.token_ids)
    choice = Choice(0, submit, Prompt([1]), TOKENS, ending, echo=False)
    pieces: list[Piece] = []
    for step in steps:
        piece = choice.feed(Delta(list(step)))
        assert piece is None or piece.text, "a chunk without text"
        pieces += [piece] if piece else []
        if choice.stopped_by is not None:
            break
    last = choice.feed(Delta([], None, Ended("r", "length", Receipt())))
    assert last is not None
    text = "".join(piece.text for piece in [*pieces, last])
    return text, last.finish_reason, last.stop_reason


@given(st.data(), st.lists(st.integers(3, TOKENS.vocab - 1), max_size=30), stops, st.booleans())
def test_a_choice_does_not_depend_on_how_many_tokens_a_step_draws(
    data: st.DataObject, token_ids: list[int], strings: tuple[str, ...], include: bool
) -> None:
    ending = Ending(strings, (), include)
    one_by_one = drawn_by(token_ids, [[token] for token in token_ids], ending)
    assert drawn_by(token_ids, data.draw(st.composite(chunked)(token_ids)), ending) == one_by_one


@pytest.mark.parametrize(
    ("strings", "include", "text", "stopped_by"),
    [
        (("ee f",), False, "one two thr", "ee f"),
        (("ee f",), True, "one two three f", "ee f"),
        (("two", "two three"), False, "one ", "two"),
        (("two three", "wo"), False, "one t", "wo"),
        (("ne two three fou",), False, "o", "ne two three fou"),
        (("hree", "three"), False, "one two ", "three"),
    ],
)
def test_text_utf8_10_stop_strings_across_tokens(
    strings: tuple[str, ...], include: bool, text: str, stopped_by: str
) -> None:
    ids = TOKENS.encode("one two three four")
    assert drawn_by(ids, [[token] for token in ids], Ending(strings, (), include)) == (text, "stop", stopped_by)


@pytest.mark.parametrize("include", [False, True])
def test_text_utf8_10_a_special_stop_token(include: bool) -> None:
    ids = [*TOKENS.encode("one"), 2, *TOKENS.encode("two")]
    text = "one<|im_end|>" if include else "one"
    assert drawn_by(ids, [ids], Ending((), (2,), include)) == (text, "stop", 2)


@given(st.text("ab<|", max_size=30), st.lists(st.text("ab<|", max_size=6), max_size=8))
def test_any_of_finds_what_a_plain_alternation_would(text: str, strings: list[str]) -> None:
    found = any_of(strings)
    longest_first = sorted(filter(None, strings), key=len, reverse=True)
    if found is None:
        assert not longest_first
    else:
        assert found.findall(text) == re.findall("|".join(map(re.escape, longest_first)), text)
