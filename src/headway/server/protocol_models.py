"""/v1/models, /tokenize and /detokenize on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headway.server.limits import SCHEMA
from headway.server.protocol import TokenId
from headway.server.protocol_chat import Message


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "headway"
    max_model_len: int
    """Extension: prompt and completion together, in tokens."""


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelCard]
    object: Literal["list"] = "list"


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Either `prompt` or `messages`, encoded as /v1/completions and /v1/chat/completions would."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Meta(min_length=1, max_length=SCHEMA.messages)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None


class Tokens(msgspec.Struct, frozen=True):
    tokens: list[int]
    count: int
    max_model_len: int


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    tokens: list[TokenId]
    """At most as many as the context holds."""
    model: str | None = None


class Detokenized(msgspec.Struct, frozen=True):
    prompt: str
