"""Tokens to bytes to text, and back. Text is decoded by bytes, so a chunk never holds half a character."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer

from headway.scheduler.config import ConfigError


class TokenizerFault(Exception):
    """The tokenizer library broke down over a text."""


class TokenText:
    """A tokenizer with a table of the bytes that each token id stands for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises ConfigError if its decoder is neither byte-level nor byte-fallback, so that a table can't be made, or
        if it can't encode the simplest text.
        """
        serialized = tokenizer.to_str()
        self._tokenizer = _without_trimming(Tokenizer.from_str(serialized))
        self._plain = _without_trimming(Tokenizer.from_str(serialized))
        self._plain.encode_special_tokens = True
        added = tokenizer.get_added_tokens_decoder()
        self.special = {token.content: id for id, token in added.items() if token.special}
        self._special_ids = frozenset(self.special.values())
        self._bytes = _byte_table(tokenizer, json.loads(serialized).get("decoder"))
        self.longest_token_bytes = max(map(len, self._bytes), default=1) or 1
        try:
            self.encode("a b")
            self.encode_plain("a b")
        except TokenizerFault as fault:
            raise ConfigError(f"the tokenizer can't encode text: {fault}") from None

    @property
    def vocab(self) -> int:
        """One more than the greatest token id."""
        return len(self._bytes)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Special tokens in the text become special tokens."""
        return _encode(self._tokenizer, text, add_special_tokens)

    def encode_plain(self, text: str) -> list[int]:
        """Special tokens in the text are taken apart like any other text."""
        return _encode(self._plain, text, False)

    def bytes_of(self, token_id: int) -> bytes:
        """What the token adds to the text: nothing, if it is special or not in the tokenizer."""
        return b"" if token_id in self._special_ids else self.raw_bytes_of(token_id)

    def raw_bytes_of(self, token_id: int) -> bytes:
        """The same, but special tokens show their name."""
        return self._bytes[token_id] if token_id < len(self._bytes) else b""

    def decode(self, token_ids: Iterable[int]) -> str:
        """Bytes that are not UTF-8, also an unfinished character at the end, become U+FFFD."""
        return b"".join(map(self.bytes_of, token_ids)).decode("utf-8", "replace")


class Utf8Stream:
    """Bytes in, text out, in pieces that add up to the decoding of the whole. An unfinished character is held back."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)


def _without_trimming(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _encode(tokenizer: Tokenizer, text: str, add_special_tokens: bool) -> list[int]:
    # encode_batch lets other threads run meanwhile; encode keeps the interpreter's lock.
    try:
        ids: list[int] = tokenizer.encode_batch([text], add_special_tokens=add_special_tokens)[0].ids
    except BaseException as error:
        # What its Rust code calls a panic is not an Exception, and nothing above would answer the client.
        if type(error).__name__ == "PanicException":
            raise TokenizerFault(str(error)) from None
        raise
    return ids


def _byte_table(tokenizer: Tokenizer, decoder: Any) -> list[bytes]:
    kinds = _decoder_kinds(decoder)
    if "ByteLevel" in kinds:
        to_bytes = _byte_level
    elif kinds & {"ByteFallback", "Metaspace"}:
        to_bytes = _metaspace
    else:
        raise ConfigError(f"the tokenizer's decoder must be ByteLevel, ByteFallback or Metaspace, not {sorted(kinds)}")
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    added = tokenizer.get_added_tokens_decoder()
    table = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for piece, id in vocabulary.items():
        table[id] = piece.encode() if id in added else to_bytes(piece)
    return table


def _decoder_kinds(decoder: Any) -> set[str]:
    if not isinstance(decoder, dict):
        return set()
    inner = [kind for part in decoder.get("decoders", ()) for kind in _decoder_kinds(part)]
    return {str(decoder.get("type")), *inner}


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it is printable, else the next code point from 256."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()


def _byte_level(piece: str) -> bytes:
    if all(char in _BYTE_OF for char in piece):
        return bytes(_BYTE_OF[char] for char in piece)
    return piece.encode()


def _metaspace(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("\u2581", " ").encode()
