"""/v1/completions on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headway.scheduler.request import FinishReason
from headway.server.limits import SCHEMA
from headway.server.protocol import GenerationRequest, TokenId
from headway.server.usage import Usage

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""


class CompletionRequest(GenerationRequest, frozen=True, kw_only=True):
    prompt: str | list[str | TokenId | list[TokenId]]
    """One string, several, one list of token ids, or several. Special tokens in a string are special."""
    logprobs: Annotated[int, Meta(ge=0, le=SCHEMA.top_logprobs)] | None = None
    echo: bool | None = None
    add_special_tokens: bool | None = None
    """Extension: whether the tokenizer adds its own beginning or end; true if absent."""


class CompletionLogprobs(msgspec.Struct, frozen=True):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class CompletionChoice(msgspec.Struct, frozen=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    """Extension: the stop string or stop token id that ended it, if the request named it."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer, or with `stream` one chunk of it."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    """In a stream null until the last chunk, where it was asked to include it; else left out."""
