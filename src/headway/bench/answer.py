"""From the events of one stream to what the answer is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from headway.bench.outcome import Outcome
from headway.bench.sse import StreamError

SPARE_BYTES = 2**20
BYTES_PER_TOKEN = 8192
"""An answer may have SPARE_BYTES and this for each token asked for: a chunk with log-probabilities is large."""
MIN_PAIRS = 4
NO_DONE = "ended without [DONE]"
_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")


@dataclass(slots=True)
class Usage:
    """What the server says it counted. None where it says nothing."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    receipt: dict[str, Any] | None = None


@dataclass(slots=True)
class Answer:
    """One stream, as far as it came. Times are those of the clock that `take` is given."""

    max_bytes: int = SPARE_BYTES
    arrivals_s: list[float] = field(default_factory=list)
    """When text came; what is read at one moment is one arrival."""
    pieces: list[str] = field(default_factory=list)
    """One for each chunk that carries text."""
    end_s: float | None = None
    """When the finish reason came."""
    finish_reason: str | None = None
    done: bool = False
    usage: Usage = field(default_factory=Usage)
    problem: tuple[Outcome, str] | None = None
    """The first thing that was wrong."""
    _bytes: int = 0
    _decoder: msgspec.json.Decoder[Any] = field(default_factory=msgspec.json.Decoder, repr=False)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def take(self, data: bytes, now_s: float) -> None:
        """The data of one event. Raises StreamError when the answer has no bound."""
        self._bytes += len(data)
        if self._bytes > self.max_bytes:
            raise StreamError(f"the answer is larger than {self.max_bytes} bytes")
        if data.strip() == b"[DONE]":
            if self.done:
                self._blame("duplicated", "[DONE] came twice")
            self.done = True
            return
        try:
            chunk = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._blame("malformed", "an event is not JSON")
            return
        if not isinstance(chunk, dict):
            self._blame("malformed", "an event is not a JSON object")
            return
        self._take_chunk(chunk, now_s)

    def _take_chunk(self, chunk: dict[str, Any], now_s: float) -> None:
        if chunk.get("error") or chunk.get("object") == "error":
            self._blame("error_in_answer", error_text(chunk))
            return
        if self.done:
            self._blame("duplicated", "a chunk came after [DONE]")
            return
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self.usage = read_usage(usage)
        choices = chunk.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            self._blame("malformed", "`choices` is not a list of objects")
            return
        for choice in choices:
            self._take_choice(choice, now_s)

    def _take_choice(self, choice: dict[str, Any], now_s: float) -> None:
        if choice.get("index") not in (0, None):
            self._blame("duplicated", "there is more than one choice")
            return
        text = _text_of(choice)
        if text is None:
            self._blame("malformed", "the text of a chunk is not a string")
            return
        if text:
            self._take_text(text, now_s)
        reason = choice.get("finish_reason")
        if reason:
            if self.finish_reason is not None:
                self._blame("duplicated", "the finish reason came twice")
                return
            self.finish_reason = str(reason)
            self.end_s = now_s

    def _take_text(self, text: str, now_s: float) -> None:
        if self.finish_reason is not None:
            self._blame("duplicated", "text came after the finish reason")
            return
        self.pieces.append(text)
        if not self.arrivals_s or now_s > self.arrivals_s[-1]:
            self.arrivals_s.append(now_s)

    def _blame(self, outcome: Outcome, why: str) -> None:
        if self.problem is None:
            self.problem = (outcome, why)

    def verdict(self, *, body_ended: bool, needs_done: bool) -> tuple[Outcome, str]:
        """What the answer is, lengths aside. `body_ended`: HTTP says that all of the body came."""
        if self.problem is not None:
            return self.problem
        if not body_ended and not self.done:
            return "cut", "the connection closed before the end of the stream"
        if self.finish_reason is None:
            what = "ended without a finish reason"
            return ("cut", what) if self.pieces or not self.done else ("empty", "no text and no finish reason")
        if self.finish_reason in ("error", "cancelled", "abort"):
            return "error_in_answer", f"the finish reason is {self.finish_reason!r}"
        if not self.done and needs_done:
            return "cut", NO_DONE
        if not self.pieces:
            return "empty", "ended properly without text"
        if self._all_twice():
            return "duplicated", "every chunk came twice"
        return "ok", ""

    def _all_twice(self) -> bool:
        """A model may say a word twice, but not each of several different words."""
        pieces = self.pieces
        pairs = len(pieces) // 2
        return (
            pairs >= MIN_PAIRS
            and len(pieces) % 2 == 0
            and pieces[::2] == pieces[1::2]
            and len(set(pieces)) >= MIN_PAIRS
        )


def _text_of(choice: dict[str, Any]) -> str | None:
    """The new text of a choice of either API; None when it has the wrong type."""
    if "delta" not in choice:
        text = choice.get("text")
        return "" if text is None else text if isinstance(text, str) else None
    delta = choice["delta"] or {}
    if not isinstance(delta, dict):
        return None
    parts = [delta.get(name) for name in _TEXT_FIELDS]
    parts += _tool_text(delta.get("tool_calls"))
    if not all(part is None or isinstance(part, str) for part in parts):
        return None
    return "".join(part for part in parts if part)


def _tool_text(calls: Any) -> list[Any]:
    """Tool calls are output too."""
    if not isinstance(calls, list):
        return []
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return [
        function.get(name) for function in functions if isinstance(function, dict) for name in ("name", "arguments")
    ]


def read_usage(usage: dict[str, Any]) -> Usage:
    """OpenAI's counts, cached tokens, and Headway's receipt. What is not a count is as if it were absent."""
    details = usage.get("prompt_tokens_details")
    receipt = usage.get("headway")
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        receipt if isinstance(receipt, dict) else None,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def error_text(body: dict[str, Any]) -> str:
    """The message of an error body, in any of the common shapes."""
    error = body.get("error", body)
    message = error.get("message") if isinstance(error, dict) else error
    return shown(message if isinstance(message, str) else "an error without a message")


def shown(text: str, limit: int = 200) -> str:
    """One printable line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
