"""One answer being received: bytes in, an `Answer` and what became of it out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from headway.bench.answer import BYTES_PER_TOKEN, SPARE_BYTES, Answer, error_text, shown
from headway.bench.outcome import Outcome
from headway.bench.sse import EventParser, StreamError

MAX_ERROR_BYTES = 64 * 1024
"""Of a body that is not a stream."""
RETRY_STATUSES = (429, 503)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that a server may take; past one, the answer is a `timeout`."""

    connect_s: float = 10.0
    first_text_s: float = 600.0
    """From sending to the first text."""
    silence_s: float = 120.0
    """Between two arrivals of text."""
    whole_s: float = 3600.0


@dataclass(slots=True)
class Ended:
    outcome: Outcome
    why: str = ""


@dataclass(slots=True)
class Exchange:
    """Listens to a connection. `ended` is set once, and the connection is of no more interest then."""

    needs_done: bool
    num_tokens: int
    """That were asked for."""
    loop: asyncio.AbstractEventLoop
    ended: asyncio.Future[Ended] = field(init=False)
    answer: Answer = field(init=False)
    status: int | None = None
    headers_s: float | None = None
    retry_after_s: float | None = None
    heard: bool = False
    """Whether a single byte came back."""
    _events: EventParser = field(default_factory=EventParser)
    _streams: bool = False
    _num_bytes: int = 0
    _num_events: int = 0
    _body: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.ended = self.loop.create_future()
        self.answer = Answer(SPARE_BYTES + BYTES_PER_TOKEN * self.num_tokens)

    def on_headers(self, status: int, headers: dict[str, str]) -> None:
        self.heard = True
        self.status = status
        self.headers_s = self.loop.time()
        self.retry_after_s = _retry_after_s(headers.get("retry-after"))
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._streams = status == 200 and kind != "application/json"

    def on_body(self, part: bytes) -> None:
        if self.ended.done():
            return
        if not self._streams:
            self._body += part[: MAX_ERROR_BYTES - len(self._body)]
            return
        now_s = self.loop.time()
        self._num_bytes += len(part)
        try:
            for data in self._events.feed(part):
                self._num_events += 1
                self.answer.take(data, now_s)
        except StreamError as error:
            self._end("malformed", str(error))

    def on_end(self) -> None:
        self._end(*self._whole_body())

    def on_lost(self, why: str) -> None:
        if self.status is None:
            self._end("malformed" if why.startswith("not HTTP") else "reset", why)
        elif self._streams:
            self._end(*self.answer.verdict(body_ended=False, needs_done=self.needs_done))
        else:
            self._end(*self._whole_body())

    def expire(self, why: str) -> None:
        self._end("timeout", why)

    def _end(self, outcome: Outcome, why: str) -> None:
        if not self.ended.done():
            self.ended.set_result(Ended(outcome, why))

    def _whole_body(self) -> tuple[Outcome, str]:
        if self._streams:
            if not self._num_events:
                return ("malformed", "no events in the body") if self._num_bytes else ("empty", "an empty body")
            return self.answer.verdict(body_ended=True, needs_done=self.needs_done)
        why = self._error_of_body()
        if self.status in RETRY_STATUSES:
            return "refused", f"status {self.status}: {why}"
        if self.status != 200:
            return "http_error", f"status {self.status}: {why}"
        return self._not_a_stream(why)

    def _not_a_stream(self, why: str) -> tuple[Outcome, str]:
        body = _object(bytes(self._body))
        if not self._body.strip():
            return "empty", "an empty body"
        if body is None:
            return "malformed", "the body is not a JSON object"
        if body.get("error") or not body.get("choices"):
            return "error_in_answer", why
        return "not_streamed", "a whole answer at once"

    def _error_of_body(self) -> str:
        body = _object(bytes(self._body))
        return error_text(body) if body is not None else shown(self._body.decode("utf-8", "replace")) or "no body"


def _object(data: bytes) -> dict[str, object] | None:
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _retry_after_s(value: str | None) -> float | None:
    """Seconds only; a date would need the two clocks to agree."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
