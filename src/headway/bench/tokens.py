"""Tokenizers to count with: a local one, or the server's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import tokenizers

from headway.bench.client import Client
from headway.bench.connection import reason


class TokenizerError(ValueError):
    """No usable tokenizer; one line."""


class Tokenizer(Protocol):
    """Counts without special tokens."""

    name: str

    async def count(self, texts: Sequence[str]) -> list[int]: ...


class LocalTokenizer:
    """A tokenizer.json, or a Hugging Face folder that holds one."""

    def __init__(self, path: Path) -> None:
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises bare Exception
            missing = "there is no tokenizer.json in it" if path.is_dir() else "there is no such file"
            why = str(error).splitlines()[0] if file.exists() else missing
            raise TokenizerError(f"--tokenizer {path}: {why}") from None
        # The file may ask for both, and then every count is wrong.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.name = str(path)

    async def count(self, texts: Sequence[str]) -> list[int]:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encoded]


class ServerTokenizer:
    """POST /tokenize, as Headway, vLLM, SGLang and llama.cpp have it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.name = "the server's /tokenize"

    async def count(self, texts: Sequence[str]) -> list[int]:
        return [await self._count(text) for text in texts]

    async def _count(self, text: str) -> int:
        """Raises TokenizerError."""
        fields = {
            "model": self._client.endpoint.model,
            "prompt": text,
            "content": text,
            "add_special_tokens": False,
            "add_special": False,
        }
        try:
            answer = await self._client.fetch("POST", "//tokenize", msgspec.json.encode(fields))
            tokens = msgspec.json.decode(answer)["tokens"]
        except (OSError, TimeoutError, msgspec.DecodeError, LookupError, TypeError) as error:
            raise TokenizerError(f"the server's /tokenize: {reason(error)}") from None
        if not isinstance(tokens, list):
            raise TokenizerError("the server's /tokenize: `tokens` is not a list")
        return len(tokens)
