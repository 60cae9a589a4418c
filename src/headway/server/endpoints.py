"""The OpenAI endpoints, and /tokenize and /detokenize beside them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headway.server import connection
from headway.server.admission import Model, Wanted, choices_of
from headway.server.answers import Answer, ChatAnswer, CompletionAnswer
from headway.server.auth import Caller
from headway.server.choices import Piece, prompt_logprobs_bytes
from headway.server.engine import EngineClient
from headway.server.errors import ApiError, invalid, shown
from headway.server.gate import describe
from headway.server.inflight import Held, Inflight
from headway.server.job import Job, collect
from headway.server.metrics import Metrics
from headway.server.prompt import Prompt
from headway.server.protocol import GenerationRequest, check_stream_options, decode
from headway.server.protocol_chat import ChatRequest
from headway.server.protocol_completions import DEFAULT_MAX_TOKENS, CompletionRequest
from headway.server.protocol_models import Detokenized, DetokenizeRequest, ModelCard, ModelList, TokenizeRequest, Tokens
from headway.server.settings import Settings
from headway.server.sse import PING, EventStream, event
from headway.server.usage import usage_of

Asked = TypeVar("Asked", bound=GenerationRequest)
TOKENISED_BYTES = 40
"""For each byte of a body: at worst it is a token, an integer in a list."""


class Endpoints:
    def __init__(
        self, engine: EngineClient, model: Model, settings: Settings, inflight: Inflight, metrics: Metrics
    ) -> None:
        self._engine = engine
        self._model = model
        self._settings = settings
        self._inflight = inflight
        self._metrics = metrics
        self._card = ModelCard(id=settings.model, created=int(time.time()), max_model_len=model.max_context)

    async def models(self, request: Request) -> Response:
        return self._json(request, ModelList([self._card]))

    async def one_model(self, request: Request) -> Response:
        self._check_model(request.path_params["model"])
        return self._json(request, self._card)

    async def completions(self, request: Request) -> Response:
        asked = await self._read(request, CompletionRequest)
        if asked.max_tokens == 0 and not asked.echo:
            raise invalid("`max_tokens`: 0 is only allowed with `echo`", "max_tokens")
        prompts = await connection.while_connected(request.receive, self._model.prompts.completions(asked))
        wanted = Wanted(asked.max_tokens, DEFAULT_MAX_TOKENS, asked.logprobs, bool(asked.echo))
        answer = CompletionAnswer(
            _id(request), int(time.time()), self._settings.model, asked.logprobs, asked.includes_usage
        )
        return await self._answer(request, asked, wanted, prompts, answer)

    async def chat(self, request: Request) -> Response:
        asked = await self._read(request, ChatRequest)
        wanted = _chat_wanted(asked)
        prompting = self._model.prompts.chat(asked.messages, asked.add_generation_prompt is not False)
        prompt = await connection.while_connected(request.receive, prompting)
        answer = ChatAnswer(
            _id(request), int(time.time()), self._settings.model, bool(asked.logprobs), asked.includes_usage
        )
        return await self._answer(request, asked, wanted, [prompt], answer)

    async def tokenize(self, request: Request) -> Response:
        asked = decode(await connection.read_json(request, self._settings.limits), TokenizeRequest)
        self._check_model(asked.model)
        prompts = self._model.prompts
        if (asked.prompt is None) == (asked.messages is None):
            raise invalid("either `prompt` or `messages` is needed, and not both", "prompt")
        if asked.messages is not None:
            prompt = await prompts.chat(asked.messages, asked.add_generation_prompt is not False)
        else:
            held = _held(request)
            held.grow(TOKENISED_BYTES * held.bytes)
            prompt = await prompts.text(asked.prompt or "", asked.add_special_tokens is not False)
        return self._json(request, Tokens(prompt.token_ids, len(prompt.token_ids), self._model.max_context))

    async def detokenize(self, request: Request) -> Response:
        asked = decode(await connection.read_json(request, self._settings.limits), DetokenizeRequest)
        self._check_model(asked.model)
        if len(asked.tokens) > self._model.max_context:
            most = self._model.max_context
            raise invalid(f"`tokens`: at most {most} fit in the context, not {len(asked.tokens)}", "tokens")
        return self._json(request, Detokenized(await self._model.prompts.detokenized(asked.tokens, "tokens")))

    async def _read(self, request: Request, kind: type[Asked]) -> Asked:
        asked = decode(await connection.read_json(request, self._settings.limits), kind)
        self._check_model(asked.model)
        check_stream_options(asked)
        return asked

    def _check_model(self, name: str | None) -> None:
        if name is not None and name != self._settings.model:
            message = f"the model {shown(name)} does not exist; this server has {shown(self._settings.model)}"
            raise ApiError(404, message, param="model", code="model_not_found")

    async def _answer(
        self, request: Request, asked: GenerationRequest, wanted: Wanted, prompts: Sequence[Prompt], answer: Answer
    ) -> Response:
        caller: Caller = request.scope["headway.caller"]
        choices = choices_of(asked, wanted, prompts, self._model, caller, _id(request))
        held = _held(request)
        held.grow(prompt_logprobs_bytes(choices))
        job = Job(choices, self._metrics, self._settings.limits.ping_s)
        lengths = [len(prompt.token_ids) for prompt in prompts]
        if asked.stream:
            events = self._events(job, answer, lengths, asked.includes_usage)
            stall_s = self._settings.limits.write_stall_s
            return EventStream(events, stall_s, partial(describe, request_id=_id(request)))
        with self._inflight.job(job):
            pieces = await connection.while_connected(request.receive, collect(job.pieces(self._engine), held.grow))
        return self._whole(request, answer.whole(pieces, usage_of(lengths, job.receipts)))

    def _json(self, request: Request, value: msgspec.Struct) -> Response:
        return self._whole(request, msgspec.json.encode(value))

    def _whole(self, request: Request, body: bytes) -> Response:
        _held(request).grow(len(body))
        return connection.JsonAnswer(body, self._settings.limits.write_stall_s)

    async def _events(
        self, job: Job, answer: Answer, lengths: Sequence[int], includes_usage: bool
    ) -> AsyncGenerator[bytes]:
        opened: set[int] = set()
        with self._inflight.job(job):
            async with aclosing(job.pieces(self._engine)) as pieces:
                async for piece in pieces:
                    if not isinstance(piece, Piece):
                        yield PING
                        continue
                    opening = answer.opening(piece.index) if piece.index not in opened else []
                    opened.add(piece.index)
                    yield b"".join(map(event, [*opening, *answer.chunks(piece)]))
            if includes_usage:
                yield event(answer.usage(usage_of(lengths, job.receipts)))


def _chat_wanted(asked: ChatRequest) -> Wanted:
    if asked.top_logprobs is not None and not asked.logprobs:
        raise invalid("`top_logprobs` needs `logprobs` to be true", "top_logprobs")
    both = (asked.max_tokens, asked.max_completion_tokens)
    if None not in both and both[0] != both[1]:
        raise invalid("`max_tokens` and `max_completion_tokens` contradict each other", "max_completion_tokens")
    logprobs = (asked.top_logprobs or 0) if asked.logprobs else None
    if asked.max_completion_tokens is not None:
        return Wanted(asked.max_completion_tokens, None, logprobs, max_tokens_param="max_completion_tokens")
    return Wanted(asked.max_tokens, None, logprobs)


def _id(request: Request) -> str:
    id: str = request.scope["headway.request_id"]
    return id


def _held(request: Request) -> Held:
    held: Held = request.scope["headway.held"]
    return held
