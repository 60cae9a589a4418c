"""/v1/chat/completions on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headway.scheduler.request import FinishReason
from headway.server.limits import SCHEMA
from headway.server.protocol import INT64_MAX, GenerationRequest
from headway.server.usage import Usage


class ContentPart(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    """`developer` is given to the template as `system`."""
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None


class ChatRequest(GenerationRequest, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1, max_length=SCHEMA.messages)]
    max_completion_tokens: Annotated[int, Meta(ge=1, le=INT64_MAX)] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=INT64_MAX)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=SCHEMA.top_logprobs)] | None = None
    add_generation_prompt: bool | None = None
    """Extension: whether the template begins the assistant's message; true if absent."""


class TopLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True):
    content: list[ChatLogprob]
    refusal: None = None


class AnswerMessage(msgspec.Struct, frozen=True):
    role: Literal["assistant"]
    content: str
    refusal: None = None


class AnswerDelta(msgspec.Struct, frozen=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    """Extension: the stop string or stop token id that ended it, if the request named it."""


class ChatChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: AnswerDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    """Null until the last chunk, where the stream was asked to include it; else left out."""
