"""Which Host headers are answered: a page elsewhere must not reach a server on loopback through a name of its own."""

from __future__ import annotations

import ipaddress
import re

from headway.server.errors import ApiError, shown

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HostRule:
    def __init__(self, host: str, allowed: tuple[str, ...]) -> None:
        names = {_bracketed(name).lower() for name in (host, *allowed)}
        self._allowed = _LOOPBACK | names if is_loopback(host) or allowed else None

    def check(self, host: str) -> None:
        """Raises ApiError: 400 for what is no host, 403 for a foreign one."""
        found = _HOST.fullmatch(host)
        if found is None:
            raise ApiError(400, "the Host header is not a name or address with an optional port")
        if self._allowed is not None and found["name"].lower() not in self._allowed:
            raise ApiError(
                403, f"this server doesn't answer to the host name {shown(found['name'])}", code="wrong_host"
            )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
