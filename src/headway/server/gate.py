"""What every request passes before it is routed: host, key, limits; and what turns every failure into an answer."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.server.auth import Caller, Keys
from headway.server.deadline import deadline_of
from headway.server.engine import EngineError, EngineFailed
from headway.server.errors import ApiError, ClientGone, from_engine, internal, shown
from headway.server.hosts import HostRule
from headway.server.inflight import Inflight
from headway.server.metrics import Metrics, RefusedReason
from headway.server.settings import Settings

log = logging.getLogger("headway.server")
OPEN_PATHS = frozenset({"/health"})
"""Answered without a key, and while the server is full or stopping."""
_REASONS: dict[int, RefusedReason] = {401: "unauthorized", 413: "too_large", 503: "overloaded"}


class Gate:
    def __init__(self, app: ASGIApp, settings: Settings, inflight: Inflight, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._hosts = HostRule(settings.host, settings.allowed_hosts)
        self._keys = Keys(settings.api_keys)
        self._inflight = inflight
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = secrets.token_hex(12)
        scope["headway.request_id"] = request_id
        answer = _Answer(send, request_id)
        began_s = time.monotonic()
        try:
            await self._admit(scope, receive, answer.send)
        except ClientGone:
            pass
        except Exception as error:
            await self._fail(answer, describe(error, request_id), scope["method"])
        if self._settings.access_log:
            seconds = time.monotonic() - began_s
            log.info("%s %s %s %.3fs %s", scope["method"], shown(scope["path"]), answer.status, seconds, request_id)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        _check_framing(headers, self._settings.limits.headers)
        # Browsers, whose requests a foreign page can direct, never speak HTTP/1.0; simple health checks do.
        if "host" in headers or scope["http_version"] != "1.0":
            self._hosts.check(headers.get("host", ""))
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        tenant = self._keys.tenant(headers.get("authorization"))
        scope["headway.caller"] = Caller(tenant, self._settings.salt_secret, deadline_of(headers))
        with self._inflight.request() as held:
            scope["headway.held"] = held
            await self._app(scope, receive, send)

    async def _fail(self, answer: _Answer, error: ApiError, method: str) -> None:
        reason = "expired" if error.detail.code == "deadline_exceeded" else _REASONS.get(error.status)
        if reason is None and error.detail.code == "context_length_exceeded":
            reason = "never_fits"
        if reason is not None or error.status < 500:
            self._metrics.refused(reason or "invalid")
        if not answer.status:
            await answer.error(error, method)


class _Answer:
    """Remembers whether anything was sent, and puts the same headers on everything."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._headers = [
            (b"x-request-id", request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers]
        await self._send(message)

    async def error(self, error: ApiError, method: str) -> None:
        body = error.body()
        headers: dict[str, Any] = {"content-type": "application/json", "content-length": str(len(body))}
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers | error.headers).items()]
        await self.send({"type": "http.response.start", "status": error.status, "headers": raw})
        await self.send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


def describe(error: Exception, request_id: str) -> ApiError:
    """What the client may know. The rest goes to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, EngineError):
        if isinstance(error, EngineFailed):
            log.error("request %s: the engine failed: %s", request_id, shown(str(error)))
        return from_engine(error, request_id)
    log.error("request %s failed", request_id, exc_info=error)
    return internal(request_id)


def _check_framing(headers: Headers, limit: int) -> None:
    close = {"connection": "close"}
    if len(headers.raw) > limit:
        raise ApiError(431, f"there are {len(headers.raw)} headers, more than the limit of {limit}", headers=close)
    if "transfer-encoding" in headers and "content-length" in headers:
        raise ApiError(400, "Transfer-Encoding and Content-Length can't both be given", headers=close)
