"""Where the server under test is and how it is asked."""

from __future__ import annotations

import ssl
from typing import Any, Literal
from urllib.parse import urlsplit

import h11
import msgspec

Api = Literal["chat", "completions"]
PATHS: dict[Api, str] = {"chat": "/chat/completions", "completions": "/completions"}
RESERVED = frozenset({"model", "messages", "prompt", "stream", "n", "max_tokens"})


class EndpointError(ValueError):
    """A URL or an option that names no endpoint; one line."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAI-compatible endpoint and the fields that every request has alike."""

    host: str
    port: int
    tls: bool
    base_path: str
    """As /v1, without a slash at the end."""
    api: Api = "chat"
    model: str = ""
    ignore_eos: bool = True
    """Ask for exactly as many tokens as the workload says. Not in OpenAI's API, but in the common servers."""
    session_field: str | None = None
    """Which field of the body names the session."""
    extra: dict[str, Any] = {}
    """More fields of the body."""

    @property
    def url(self) -> str:
        """Without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.base_path}"

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context() if self.tls else None

    def body(self, prompt: str, max_tokens: int, session: str | None = None) -> bytes:
        """The JSON of one request."""
        fields: dict[str, Any] = {"model": self.model, "max_tokens": max_tokens, "stream": True}
        fields["stream_options"] = {"include_usage": True}
        if self.api == "chat":
            fields["messages"] = [{"role": "user", "content": prompt}]
        else:
            fields["prompt"] = prompt
        if self.ignore_eos:
            fields["ignore_eos"] = True
        if self.session_field and session:
            fields[self.session_field] = session
        return msgspec.json.encode(fields | self.extra)

    def head(self, method: str, path: str, body: bytes, api_key: str | None) -> h11.Request:
        """`path` below the base path, or from the root if it begins with two slashes."""
        target = path[1:] if path.startswith("//") else self.base_path + path
        headers = [("host", self.authority), ("user-agent", "headway-bench"), ("accept", "text/event-stream, */*")]
        if body:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        if api_key:
            headers.append(("authorization", f"Bearer {api_key}"))
        return h11.Request(method=method, target=target, headers=headers)


def endpoint(url: str, **options: Any) -> Endpoint:
    """From http://host:port, with or without /v1 and the name of the endpoint. Raises EndpointError."""
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EndpointError(f"URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EndpointError(f"URL: it must be http://HOST or https://HOST, not {url!r}")
    try:
        host = parts.hostname.encode("idna").decode()
    except UnicodeError:
        raise EndpointError(f"URL: {parts.hostname!r} is not the name of a host") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise EndpointError("URL: it may hold no user, password, query or fragment; keys go into HEADWAY_API_KEY")
    if any(ord(c) <= 32 or ord(c) > 126 for c in parts.path):
        raise EndpointError("URL: the path has characters that must be percent-encoded")
    path = parts.path.rstrip("/")
    for api, end in PATHS.items():
        if path.endswith(end):
            path = path.removesuffix(end)
            options.setdefault("api", api)
            break
    clash = RESERVED & set(options.get("extra") or {})
    if clash:
        raise EndpointError(f"--extra: {', '.join(sorted(clash))} cannot be set; the benchmark sets it")
    tls = parts.scheme == "https"
    return Endpoint(host=host, port=port or (443 if tls else 80), tls=tls, base_path=path or "/v1", **options)
