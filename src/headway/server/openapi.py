"""The OpenAPI document, made from the request and answer types."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from headway.server.errors import ErrorBody
from headway.server.protocol import schema_of
from headway.server.protocol_chat import ChatCompletion, ChatRequest
from headway.server.protocol_completions import Completion, CompletionRequest
from headway.server.protocol_models import Detokenized, DetokenizeRequest, ModelCard, ModelList, TokenizeRequest, Tokens

_POST: dict[str, tuple[type, type]] = {
    "/v1/completions": (CompletionRequest, Completion),
    "/v1/chat/completions": (ChatRequest, ChatCompletion),
    "/tokenize": (TokenizeRequest, Tokens),
    "/detokenize": (DetokenizeRequest, Detokenized),
}
_GET: dict[str, type | None] = {"/v1/models": ModelList, "/health": None, "/metrics": None}


def openapi() -> dict[str, Any]:
    paths: dict[str, Any] = {
        path: {"get": {"responses": _responses(_json_of(kind) if kind else None)}} for path, kind in _GET.items()
    }
    paths["/v1/models/{model}"] = {
        "get": {
            "parameters": [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}],
            "responses": _responses(_json_of(ModelCard)),
        }
    }
    for path, (request, answer) in _POST.items():
        content = _json_of(answer)
        if path.startswith("/v1/"):
            content = content | {"text/event-stream": {"schema": {"type": "string"}}}
        body = {"required": True, "content": _json_of(request)}
        paths[path] = {"post": {"requestBody": body, "responses": _responses(content)}}
    kinds = [kind for pair in _POST.values() for kind in pair]
    schemas = schema_of(*kinds, ModelList, ModelCard, ErrorBody)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway", "version": version("headway")},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _responses(content: dict[str, Any] | None) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "The answer"}
    if content is not None:
        good["content"] = content
    return {"200": good, "default": {"description": "What is wrong", "content": _json_of(ErrorBody)}}


def _json_of(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
