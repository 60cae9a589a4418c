"""Who is asking. The tenant comes from the API key alone; a client's salt can only narrow sharing further."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import blake2b

from headway.server.deadline import timeout_ns
from headway.server.errors import ApiError

_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    tenant: bytes
    """Empty when the server has no keys."""
    secret: bytes
    deadline_s: float | None = None

    def salt(self, cache_salt: str | None) -> bytes:
        """Root of the request's hash chain. Fields are length-prefixed, so they can't run into each other."""
        if not self.tenant and cache_salt is None:
            return b""
        fields = (self.tenant, b"" if cache_salt is None else b"+" + cache_salt.encode("utf-8", "surrogatepass"))
        prefixed = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
        return blake2b(prefixed, key=self.secret, digest_size=16).digest()

    def session(self, name: str | None) -> str | None:
        """Sessions of two tenants never meet."""
        return f"{self.tenant.hex()}/{name}" if name and self.tenant else name or None

    def timeout_ns(self) -> int | None:
        """What is left until the deadline. Raises ApiError (504) if nothing is."""
        return None if self.deadline_s is None else timeout_ns(self.deadline_s)


class Keys:
    """The API keys, as digests."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    def tenant(self, authorization: str | None) -> bytes:
        """Raises ApiError (401). Time does not depend on which key is right, or how much of it."""
        if not self._digests:
            return b""
        if authorization is None or not authorization.lower().startswith(_SCHEME):
            raise unauthorized("an API key is needed: send the header Authorization: Bearer KEY")
        given = _digest(authorization[len(_SCHEME) :].strip().encode("utf-8", "surrogatepass"))
        # No early exit: every key is compared.
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if not any(matches):
            raise unauthorized("the API key is not valid")
        return given


def unauthorized(message: str) -> ApiError:
    return ApiError(
        401, message, type="authentication_error", code="invalid_api_key", headers={"www-authenticate": "Bearer"}
    )


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16, person=b"headway.tenant").digest()
