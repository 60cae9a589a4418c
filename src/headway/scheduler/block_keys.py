"""Block keys: each full block of a sequence is named by a hash of its tokens and of everything before them."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

KEY_BYTES = 16
_MAX_SESSION_TOKENS = 8_000_000

Tokens = npt.NDArray[np.int32]


class BlockHasher:
    """Keyed BLAKE2b, 128 bits, chained. The root is a hash of the salt, so salts never share a key."""

    def __init__(self, block_size: int, hash_key: bytes) -> None:
        self.block_size = block_size
        self._hash_key = hash_key

    def extend(self, keys: list[bytes], tokens: Tokens, salt: bytes) -> None:
        """Appends the keys of all full blocks of `tokens` that `keys` lacks."""
        size, known = self.block_size, len(keys)
        parent = keys[-1] if keys else self._digest(salt, b"salt")
        full = len(tokens) // size
        raw = tokens[known * size : full * size].astype("<i4", copy=False).tobytes()
        stride = size * 4
        for at in range(0, len(raw), stride):
            parent = self._digest(parent + raw[at : at + stride], b"block")
            keys.append(parent)

    def _digest(self, data: bytes, person: bytes) -> bytes:
        return blake2b(data, digest_size=KEY_BYTES, key=self._hash_key, person=person).digest()


class SessionChains:
    """The last tokens and keys of each session, so that its next turn hashes only what is new.

    Bounded by sessions and by tokens; the least recently used go first.
    """

    def __init__(self, hasher: BlockHasher, max_sessions: int) -> None:
        self._hasher = hasher
        self._max_sessions = max_sessions
        self._chains: OrderedDict[tuple[bytes, str], tuple[Tokens, list[bytes]]] = OrderedDict()
        self._num_tokens = 0

    def keys_for(self, tokens: Tokens, salt: bytes, session: str | None) -> list[bytes]:
        keys: list[bytes] = []
        chain = self._chains.get((salt, session)) if session is not None else None
        if chain is not None:
            keys = chain[1][: _common_length(tokens, chain[0]) // self._hasher.block_size]
        self._hasher.extend(keys, tokens, salt)
        return keys

    def remember(self, session: str, salt: bytes, tokens: Tokens, keys: list[bytes]) -> None:
        self._forget((salt, session))
        self._chains[salt, session] = (tokens, keys)
        self._num_tokens += len(tokens)
        while len(self._chains) > self._max_sessions or self._num_tokens > _MAX_SESSION_TOKENS:
            self._forget(next(iter(self._chains)))

    def _forget(self, name: tuple[bytes, str]) -> None:
        chain = self._chains.pop(name, None)
        if chain is not None:
            self._num_tokens -= len(chain[0])


def _common_length(a: Tokens, b: Tokens) -> int:
    length = min(len(a), len(b))
    differing = np.flatnonzero(a[:length] != b[:length])
    return int(differing[0]) if differing.size else length
