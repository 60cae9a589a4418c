"""Pieces on the wire: one class for each of the two APIs, both for whole answers and for streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from headway.scheduler.request import FinishReason
from headway.server import protocol_chat as chat
from headway.server import protocol_completions as completions
from headway.server.choices import Piece
from headway.server.scored import ScoredToken
from headway.server.usage import Usage


class Answer(Protocol):
    """How an API writes what became known."""

    def opening(self, index: int) -> list[bytes]:
        """What comes before a choice's text."""
        ...

    def chunks(self, piece: Piece) -> list[bytes]: ...

    def usage(self, usage: Usage) -> bytes:
        """The last chunk: no choices."""
        ...

    def whole(self, pieces: Mapping[int, Sequence[Piece]], usage: Usage) -> bytes: ...


class ChatAnswer:
    def __init__(self, id: str, created: int, model: str, logprobs: bool, includes_usage: bool) -> None:
        self._id = f"chatcmpl-{id}"
        self._created = created
        self._model = model
        self._logprobs = logprobs
        self._no_usage = None if includes_usage else UNSET

    def opening(self, index: int) -> list[bytes]:
        return [self._chunk(chat.ChatChunkChoice(index, chat.AnswerDelta(role="assistant", content="")))]

    def chunks(self, piece: Piece) -> list[bytes]:
        written: list[bytes] = []
        if piece.text or piece.tokens:
            delta = chat.AnswerDelta(content=piece.text)
            written.append(self._chunk(chat.ChatChunkChoice(piece.index, delta, self._scores(piece.tokens))))
        if piece.finish_reason is not None:
            end = chat.ChatChunkChoice(piece.index, chat.AnswerDelta(), None, piece.finish_reason, piece.stop_reason)
            written.append(self._chunk(end))
        return written

    def usage(self, usage: Usage) -> bytes:
        return self._encode([], usage)

    def whole(self, pieces: Mapping[int, Sequence[Piece]], usage: Usage) -> bytes:
        choices = []
        for index in sorted(pieces):
            text, tokens, reason, stop_reason = _joined(pieces[index])
            message = chat.AnswerMessage("assistant", text)
            choices.append(chat.ChatChoice(index, message, self._scores(tokens), reason, stop_reason))
        return msgspec.json.encode(
            chat.ChatCompletion(id=self._id, created=self._created, model=self._model, choices=choices, usage=usage)
        )

    def _chunk(self, choice: chat.ChatChunkChoice) -> bytes:
        return self._encode([choice], self._no_usage)

    def _encode(self, choices: list[chat.ChatChunkChoice], usage: Usage | UnsetType | None) -> bytes:
        return msgspec.json.encode(
            chat.ChatChunk(id=self._id, created=self._created, model=self._model, choices=choices, usage=usage)
        )

    def _scores(self, tokens: Sequence[ScoredToken]) -> chat.ChatLogprobs | None:
        return chat.ChatLogprobs([_chat_logprob(token) for token in tokens]) if self._logprobs else None


class CompletionAnswer:
    def __init__(self, id: str, created: int, model: str, logprobs: int | None, includes_usage: bool) -> None:
        self._id = f"cmpl-{id}"
        self._created = created
        self._model = model
        self._logprobs = logprobs
        self._no_usage = None if includes_usage else UNSET

    def opening(self, index: int) -> list[bytes]:  # noqa: ARG002
        return []

    def chunks(self, piece: Piece) -> list[bytes]:
        scores = self._scores(piece.tokens) if piece.tokens else None
        choice = completions.CompletionChoice(piece.index, piece.text, scores, piece.finish_reason, piece.stop_reason)
        return [self._encode([choice], self._no_usage)]

    def usage(self, usage: Usage) -> bytes:
        return self._encode([], usage)

    def whole(self, pieces: Mapping[int, Sequence[Piece]], usage: Usage) -> bytes:
        choices = []
        for index in sorted(pieces):
            text, tokens, reason, stop_reason = _joined(pieces[index])
            choices.append(completions.CompletionChoice(index, text, self._scores(tokens), reason, stop_reason))
        return self._encode(choices, usage)

    def _encode(self, choices: list[completions.CompletionChoice], usage: Usage | UnsetType | None) -> bytes:
        return msgspec.json.encode(
            completions.Completion(id=self._id, created=self._created, model=self._model, choices=choices, usage=usage)
        )

    def _scores(self, tokens: Sequence[ScoredToken]) -> completions.CompletionLogprobs | None:
        if self._logprobs is None:
            return None
        return completions.CompletionLogprobs(
            tokens=[token.string for token in tokens],
            token_logprobs=[token.logprob for token in tokens],
            top_logprobs=[_top(token) for token in tokens] if self._logprobs else None,
            text_offset=[token.offset for token in tokens],
        )


def _joined(pieces: Sequence[Piece]) -> tuple[str, tuple[ScoredToken, ...], FinishReason, str | int | None]:
    last = pieces[-1]
    assert last.finish_reason is not None  # noqa: S101 - `collect` returns only when every choice has ended
    text = "".join(piece.text for piece in pieces)
    return text, tuple(token for piece in pieces for token in piece.tokens), last.finish_reason, last.stop_reason


def _chat_logprob(token: ScoredToken) -> chat.ChatLogprob:
    top = [chat.TopLogprob(raw.decode("utf-8", "replace"), logprob, list(raw)) for raw, logprob in token.top]
    return chat.ChatLogprob(token.string, token.logprob or 0.0, list(token.raw), top)


def _top(token: ScoredToken) -> dict[str, float] | None:
    """The best alternatives and the token itself. Alternatives that look alike as text keep the likelier's number."""
    if token.logprob is None:
        return None
    top = {token.string: token.logprob}
    for raw, logprob in token.top:
        name = raw.decode("utf-8", "replace")
        top[name] = max(logprob, top.get(name, logprob))
    return top
