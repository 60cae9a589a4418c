"""The socket that the server will listen on, bound before the model is loaded."""

from __future__ import annotations

import errno
import os
import socket

from headway.scheduler.config import ConfigError


def bind(host: str, port: int) -> socket.socket:
    """Bound and not listening yet; port 0 takes any free one. Raises ConfigError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"host {host!r} has no address: {error}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise refused(error, host, port) from None
    return listener


def listen(listener: socket.socket, host: str, backlog: int) -> None:
    """From here on clients can connect. Raises ConfigError: another process may have been faster."""
    try:
        listener.listen(backlog)
    except OSError as error:
        raise refused(error, host, listener.getsockname()[1]) from None


def refused(error: OSError, host: str, port: int) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} on {host} is in use: stop what uses it, or choose another with --port")
    return ConfigError(f"can't listen on port {port} of {host}: {os.strerror(error.errno or 0)}")


def url(listener: socket.socket, host: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"
