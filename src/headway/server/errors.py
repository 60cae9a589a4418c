"""What a client is told when something goes wrong: {"error": {message, type, param, code}} and a status."""

from __future__ import annotations

import math

import msgspec

from headway.server.engine import EngineError, Expired, InvalidRequest, NeverFits, Overloaded

SHOWN_CHARS = 100


class ErrorDetail(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


class ApiError(Exception):
    """An answer other than 200. The message is for the client: no internals, values from the client shortened."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = ErrorDetail(message, type, param, code)
        self.headers = headers or {}

    def body(self) -> bytes:
        return msgspec.json.encode(ErrorBody(self.detail))


class ClientGone(Exception):
    """Nobody is left to answer."""


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def unsupported(param: str, why: str) -> ApiError:
    return ApiError(400, f"`{param}` is not supported: {why}", param=param, code="unsupported_parameter")


def shown(value: str) -> str:
    """A client's string, fit for a message or a log line: short, on one line, control characters escaped."""
    return ascii(value if len(value) <= SHOWN_CHARS else value[:SHOWN_CHARS] + "...")


def overloaded(message: str, retry_after_s: float = 1.0, *, close: bool = False) -> ApiError:
    headers = {"retry-after": str(max(1, math.ceil(retry_after_s)))} | ({"connection": "close"} if close else {})
    return ApiError(503, message, type="server_error", code="overloaded", headers=headers)


def expired() -> ApiError:
    """The client asked for it, so it is told not to try again with the same deadline."""
    message = "the deadline in X-Request-Deadline passed before the request could run"
    return ApiError(504, message, type="server_error", code="deadline_exceeded", headers={"x-should-retry": "false"})


def internal(request_id: str) -> ApiError:
    return ApiError(
        500, f"the server failed to answer request {request_id}", type="server_error", code="internal_error"
    )


def from_engine(error: EngineError, request_id: str) -> ApiError:
    """Refusals speak for themselves; the text of a failure stays in the log."""
    if isinstance(error, Overloaded):
        return overloaded(str(error), error.retry_after_s)
    if isinstance(error, NeverFits):
        return invalid(str(error), code="context_length_exceeded")
    if isinstance(error, InvalidRequest):
        return invalid(str(error))
    if isinstance(error, Expired):
        return expired()
    return internal(request_id)
