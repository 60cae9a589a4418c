"""The HTTP application over an engine."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.scheduler.config import ConfigError
from headway.server.admission import Model
from headway.server.endpoints import Endpoints
from headway.server.engine import EngineClient
from headway.server.errors import ApiError, overloaded
from headway.server.gate import Gate
from headway.server.inflight import Inflight
from headway.server.metrics import Metrics
from headway.server.model_text import ModelText
from headway.server.openapi import openapi
from headway.server.prompt import PromptReader
from headway.server.settings import Settings


class App:
    """An ASGI application; `inflight` is how its server tells it to stop, and `close` ends its threads."""

    def __init__(self, asgi: ASGIApp, inflight: Inflight, close: Callable[[], None]) -> None:
        self._asgi = asgi
        self.inflight = inflight
        self.close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._asgi(scope, receive, send)


def build_app(engine: EngineClient, settings: Settings) -> App:
    """The engine must be ready. Raises ConfigError when its model and the tokenizer don't fit."""
    text = ModelText.from_directory(settings.directory)
    info = engine.info
    if text.tokens.vocab > info.vocab:
        raise ConfigError(f"the tokenizer has {text.tokens.vocab} tokens, the model only {info.vocab}")
    if any(not 0 <= id < info.vocab for id in text.eos_token_ids):
        raise ConfigError(f"the end tokens {text.eos_token_ids} are not all in the vocabulary of {info.vocab}")
    prompts = PromptReader(text, settings.limits, info.max_context, info.vocab)
    model = Model(text.tokens, prompts, text.eos_token_ids, info.max_context, info.vocab)
    inflight = Inflight(settings.limits.requests, settings.limits.held_bytes)
    metrics = Metrics(engine, settings.model)
    endpoints = Endpoints(engine, model, settings, inflight, metrics)

    router = Router(_routes(endpoints, engine, inflight, metrics), redirect_slashes=False)
    return App(Gate(_OpenAIErrors(router), settings, inflight, metrics), inflight, prompts.close)


def _routes(endpoints: Endpoints, engine: EngineClient, inflight: Inflight, metrics: Metrics) -> list[Route]:
    document = msgspec.json.encode(openapi())

    async def health(_: Request) -> Response:
        if inflight.draining or not engine.is_ready:
            raise overloaded("the server is stopping" if inflight.draining else "the engine is not ready")
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def show_metrics(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def show_openapi(_: Request) -> Response:
        return Response(document, media_type="application/json")

    return [
        Route("/v1/models", endpoints.models, methods=["GET"]),
        Route("/v1/models/{model:path}", endpoints.one_model, methods=["GET"]),
        Route("/v1/completions", endpoints.completions, methods=["POST"]),
        Route("/v1/chat/completions", endpoints.chat, methods=["POST"]),
        Route("/tokenize", endpoints.tokenize, methods=["POST"]),
        Route("/detokenize", endpoints.detokenize, methods=["POST"]),
        Route("/health", health, methods=["GET"]),
        Route("/metrics", show_metrics, methods=["GET"]),
        Route("/openapi.json", show_openapi, methods=["GET"]),
    ]


class _OpenAIErrors:
    """Routing's own refusals (404, 405), in the shape of all others."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            what = "this path does not exist" if error.status_code == 404 else "this method is not allowed here"
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            raise ApiError(error.status_code, what, headers=headers) from None
