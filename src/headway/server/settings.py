"""How a server is set up, beside the engine."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from headway.scheduler.config import ConfigError
from headway.server.limits import Limits


@dataclass(frozen=True, slots=True)
class Settings:
    model: str
    """The name that requests use."""
    directory: Path
    """Holds tokenizer.json and the chat template."""
    host: str = "127.0.0.1"
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """None: everybody may ask, as one tenant."""
    allowed_hosts: tuple[str, ...] = ()
    """Names in Host headers, beside those that `host` implies. Any name is fine unless `host` is a loopback address."""
    access_log: bool = False
    limits: Limits = field(default_factory=Limits)
    salt_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Keys the hash that makes block salts from tenants; cached blocks that outlive a server need it to stay."""

    def __post_init__(self) -> None:
        if not self.model.strip() or not self.model.isprintable():
            raise ConfigError(f"model: a name without control characters is needed, not {self.model!r}")
        if not all(key.isascii() and key.isprintable() and key.strip() == key and key for key in self.api_keys):
            raise ConfigError("api_keys: a key is printable ASCII, and neither begins nor ends with a space")
        if not 16 <= len(self.salt_secret) <= 64:
            raise ConfigError("salt_secret must have 16 to 64 bytes")


def keys_from(option: tuple[str, ...], environment: str | None) -> tuple[str, ...]:
    """Keys given by --api-key, and by HEADWAY_API_KEYS separated by commas."""
    named = (key.strip() for key in (environment or "").split(","))
    return tuple(dict.fromkeys([*option, *filter(None, named)]))
