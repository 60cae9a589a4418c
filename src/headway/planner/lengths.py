"""How long requests are."""

from __future__ import annotations

from dataclasses import dataclass

from headway.arithmetic.shape import ShapeError

MAX_OUTPUT_TOKENS = 1_000_000
"""A step each is computed."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of each request. Raises ShapeError for a prompt that is cached entirely: its last token is computed."""

    prompt: int
    cached: int
    output: int

    def __post_init__(self) -> None:
        if self.cached >= self.prompt:
            raise ShapeError(f"cached tokens ({self.cached}) must be fewer than the prompt's ({self.prompt})")
        if not 1 <= self.output <= MAX_OUTPUT_TOKENS:
            raise ShapeError(f"output tokens must be between 1 and {MAX_OUTPUT_TOKENS}, not {self.output}")

    @property
    def new(self) -> int:
        return self.prompt - self.cached

    @property
    def middle(self) -> int:
        """Of a sequence that is half way through its output: what sequences hold on the average."""
        return self.prompt + max(1, self.output // 2)


def rate_that_counts(slo_tokens_per_s: float | None, load: Lengths | int) -> float | None:
    """None: users see no tokens/s of an answer that is one token."""
    return None if not isinstance(load, int) and load.output == 1 else slo_tokens_per_s


def asked_tokens(load: Lengths | int) -> tuple[int, int | None, int | None, int | None]:
    """What a sequence holds on the average, and each request's prompt, its cached part and output; a number: decode
    only.
    """
    if isinstance(load, int):
        return load, None, None, None
    return load.middle, load.prompt, load.cached, load.output
