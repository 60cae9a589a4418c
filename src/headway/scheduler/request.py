"""What is asked of the brain, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

FinishReason = Literal["stop", "length", "cancelled", "error", "expired"]
"""`stop`: a stop token or (decided outside) a stop string; `expired`: its deadline passed while it was queued."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How logits become a token. Off: top_k 0, top_p 1, min_p 0, penalties 1, 0 and 0, temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int = 0
    logprobs: int | None = None
    """How many alternatives to report with each drawn token (0: only the token's own); None: report nothing."""
    prompt_logprobs: int | None = None


class Request(msgspec.Struct, frozen=True, eq=False):
    """One sequence to generate. A body sees all of it; the brain never reads `sampling`.

    `tokens` is the prompt, followed by what an earlier engine had already generated for it. In simulation there are
    no ids: `tokens` is None, and `num_tokens` and `block_keys` stand for them.
    """

    id: str
    num_prompt_tokens: int
    max_tokens: int
    """Most tokens to generate, those already generated included; 0 only computes the prompt."""
    tokens: npt.NDArray[np.int64] | None = None
    num_tokens: int = 0
    block_keys: tuple[bytes, ...] = ()
    sampling: Sampling = Sampling()
    stop_token_ids: tuple[int, ...] = ()
    priority: int = 0
    """Smaller is served first."""
    session: str | None = None
    salt: bytes = b""
    """Root of the hash chain: requests with different salts never share blocks. Set by the server only."""
    deadline_ns: int | None = None
    """If it has not been scheduled by then, it ends as `expired`."""

    def __post_init__(self) -> None:
        if self.tokens is not None:
            msgspec.structs.force_setattr(self, "num_tokens", len(self.tokens))

    @property
    def limit(self) -> int:
        """Length, prompt and output together, at which it ends."""
        return self.num_prompt_tokens + self.max_tokens

    @property
    def reads_whole_prompt(self) -> bool:
        """Prompt logprobs need every position computed, so nothing may be reused."""
        return self.sampling.prompt_logprobs is not None
