"""Text of exact token counts, that shares prefixes as the workload's block ids say."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from headway.bench.tokens import Tokenizer, TokenizerError
from headway.bench.words import WORDS
from headway.workload.call import Call

MAX_CACHED_WORDS = 4_000_000
LEAST_WORDS = 32
_PROBE_WORDS = 256


async def whole_words(tokenizer: Tokenizer) -> list[str]:
    """Those of WORDS that are one token each, at the beginning and behind a space. Raises TokenizerError."""
    once = await tokenizer.count(WORDS)
    twice = await tokenizer.count([f"{word} {word}" for word in WORDS])
    least = min(once)
    words = [word for word, one, two in zip(WORDS, once, twice, strict=True) if (one, two) == (least, least + 1)]
    if len(words) < LEAST_WORDS:
        raise TokenizerError(f"{tokenizer.name}: only {len(words)} of {len(WORDS)} words are one token")
    await _check_additive(tokenizer, words)
    return words


async def _check_additive(tokenizer: Tokenizer, words: Sequence[str]) -> None:
    """Words joined in any order must have as many tokens as words, but for what a beginning adds."""
    rng = np.random.default_rng(0)
    counts = await tokenizer.count([" ".join(rng.choice(words, n)) for n in (1, _PROBE_WORDS, 2 * _PROBE_WORDS)])
    if counts[1] - counts[0] != _PROBE_WORDS - 1 or counts[2] - counts[1] != _PROBE_WORDS:
        raise TokenizerError(f"{tokenizer.name}: {_PROBE_WORDS} joined words have {counts[1]} tokens")


class Prompts:
    """Words for calls. One word is one token; `overhead_tokens` are what the server adds: template, beginning of text.

    They come off the first words, so that equal blocks stay equal text. The same call, seed and overhead give the
    same text.
    """

    def __init__(self, words: Sequence[str], seed: str, block_size: int, overhead_tokens: int = 0) -> None:
        self._words = np.asarray(words, np.str_)
        self._seed = seed
        self._block_size = block_size
        self._blocks: OrderedDict[int, list[str]] = OrderedDict()
        self.overhead_tokens = overhead_tokens

    def text(self, call: Call) -> str:
        """At least one word, though the overhead alone may be more than was asked for."""
        return " ".join(self._content(call)[self.overhead_tokens :] or [str(self._words[0])])

    def _content(self, call: Call) -> list[str]:
        words: list[str] = []
        if self._block_size:
            for block in call.hash_ids:
                words += self._block(block)
        del words[call.num_input_tokens :]
        missing = call.num_input_tokens - len(words)
        return words + self._draw(f"call {call.id}", missing) if missing else words

    def _block(self, block: int) -> list[str]:
        words = self._blocks.get(block)
        if words is None:
            words = self._blocks[block] = self._draw(f"block {block}", self._block_size)
            while len(self._blocks) * self._block_size > MAX_CACHED_WORDS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(block)
        return words

    def _draw(self, name: str, count: int) -> list[str]:
        """Words that depend on the seed and the name only."""
        digest = blake2b(f"{self._seed}/{name}".encode(), digest_size=16).digest()
        rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
        drawn: list[str] = self._words[rng.integers(len(self._words), size=count)].tolist()
        return drawn
