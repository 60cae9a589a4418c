"""Requests as they come in: the parts that completions and chat share, and how a body becomes one of them."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from headway.server.errors import ApiError, invalid, unsupported
from headway.server.limits import SCHEMA
from headway.server.unsupported import refuse_unsupported

INT64_MAX = 2**63 - 1
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
StopString = Annotated[str, Meta(min_length=1, max_length=SCHEMA.stop_chars)]


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Null means the default everywhere. Fields that are not listed anywhere are ignored."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=INT64_MAX)] | None = None
    n: Annotated[int, Meta(ge=1, le=SCHEMA.n)] | None = None
    stop: StopString | Annotated[list[StopString], Meta(max_length=SCHEMA.stop_strings)] | None = None
    seed: Annotated[int, Meta(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=INT64_MAX)] | None = None
    """Extension; 0 and -1 mean off."""
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Extension."""
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    """Extension."""
    ignore_eos: bool | None = None
    """Extension: the model's own end tokens don't end the text."""
    stop_token_ids: Annotated[list[TokenId], Meta(max_length=SCHEMA.stop_token_ids)] | None = None
    """Extension."""
    include_stop_str_in_output: bool | None = None
    """Extension."""
    priority: Annotated[int, Meta(ge=-SCHEMA.priority, le=SCHEMA.priority)] | None = None
    """Extension: smaller is served first."""
    session_id: Annotated[str, Meta(min_length=1, max_length=SCHEMA.session_chars)] | None = None
    """Extension: the session that this call belongs to."""
    prompt_cache_key: Annotated[str, Meta(max_length=SCHEMA.session_chars)] | None = None
    """OpenAI's name for much the same; `session_id` goes first."""
    cache_salt: Annotated[str, Meta(min_length=1, max_length=SCHEMA.salt_chars)] | None = None
    """Extension: prefixes are shared only among requests of this API key with the same salt."""

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


RequestT = TypeVar("RequestT", bound=msgspec.Struct)

_AT = re.compile(r" - at `\$\.?(?P<param>.*)`$")
_MISSING = re.compile(r"missing required field `(?P<param>[^`]+)`")


def decode(body: bytes, kind: type[RequestT]) -> RequestT:
    """A JSON object to a request. Raises ApiError (400) that names the field and what is allowed.

    The last of several equal keys counts. NaN and infinities are not JSON.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        request = msgspec.json.decode(body, type=kind)
        refuse_unsupported(fields, kind.__struct_fields__)
    except msgspec.ValidationError as error:
        raise _validation_error(str(error)) from None
    except msgspec.DecodeError as error:
        raise invalid(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise invalid("the body is nested too deep") from None
    except UnicodeDecodeError:
        raise invalid("the body is not valid UTF-8") from None
    return request


def _validation_error(text: str) -> ApiError:
    missing = _MISSING.search(text)
    at = _AT.search(text)
    what = text[: at.start()] if at else text
    path = at["param"] if at else ""
    if missing:
        path = f"{path}.{missing['param']}" if path else missing["param"]
        what = "it is required"
    what = what[0].lower() + what[1:]
    return invalid(f"`{path}`: {what}" if path else f"the body: {what}", path or None)


def check_stream_options(request: GenerationRequest) -> None:
    if request.stream_options is not None and not request.stream:
        raise invalid("`stream_options` is only allowed when `stream` is true", "stream_options")
    if request.stream_options is not None and request.stream_options.continuous_usage_stats:
        raise unsupported("stream_options.continuous_usage_stats", "usage comes in the last chunk")


def schema_of(*kinds: Any) -> dict[str, Any]:
    """JSON schemas by name, for the OpenAPI document."""
    _, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return components
