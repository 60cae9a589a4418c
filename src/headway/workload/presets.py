"""Whose sessions: people who chat with a model, and coding agents. Tails are heavy.

Each preset reproduces its own sources, and they are not mixed:

- `coding_agent`: the coding-agent sessions of callanjfox/kv-cache-tester at 94f6046.
- `tracelab`: the figures of TraceLab (University of Washington, arXiv 2606.30560).
- `chat`: sessions of 3.5 turns on average, with some 100 s between them (ServeGen, arXiv 2505.09999), 69.5 tokens a
  message and 214.5 an answer on average (LMSYS-Chat-1M, arXiv 2309.11998), half of the answers up to 129 tokens and
  nine tenths up to 424 (Azure's conversation trace of 2023). Assumed: the other spreads, long pauses after a tenth of
  the answers, a system prompt of 1,000 tokens, the limit of the context, what tools take and add where there are some.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.workload.lengths import Distribution, Fixed, LogNormal, Mixture, mixture


@dataclass(frozen=True, slots=True)
class SessionPreset:
    """Times in seconds, lengths in tokens. A session makes `turns`, each of one call and `extra_calls` more."""

    name: str
    turns: Distribution
    extra_calls: Distribution
    think_s: Distribution
    tool_s: Distribution
    added: Distribution
    """By a tool's result; by a human's message too, where there is no `message`."""
    output: Distribution
    limits: tuple[tuple[float, int], ...]
    """(share of sessions, context limit)."""
    first_context: Distribution | None = None
    """None: the shared prefix and a message."""
    message: Distribution | None = None
    shared_tokens: int = 14_000


_NOTHING = Fixed(0.0)
PRESETS = {
    preset.name: preset
    for preset in (
        SessionPreset(
            "chat",
            turns=LogNormal(2, 1.03),
            extra_calls=_NOTHING,
            think_s=mixture((0.9, 80, 1.0), (0.1, 1500, 1.2)),
            tool_s=LogNormal(1.5, 1.0),
            added=LogNormal(1000, 1.0),
            output=LogNormal(129, 0.93),
            limits=((1.0, 128_000),),
            message=LogNormal(30, 1.3),
            shared_tokens=1000,
        ),
        SessionPreset(
            "coding_agent",
            turns=LogNormal(3.3, 1.17),
            extra_calls=Mixture(((0.40, _NOTHING), (0.60, LogNormal(6.6, 1.28)))),
            think_s=mixture((0.285, 13.2, 0.97), (0.483, 119, 0.77), (0.228, 1084, 1.0), (0.004, 30_000, 0.6)),
            tool_s=mixture((0.62, 6.4, 0.45), (0.29, 19, 0.8), (0.08, 110, 1.0), (0.01, 1200, 1.2)),
            first_context=mixture((0.7, 21_000, 0.28), (0.3, 110_000, 0.5)),
            added=mixture((0.52, 300, 0.75), (0.38, 800, 1.0), (0.10, 4500, 1.0)),
            output=mixture((0.6, 150, 0.35), (0.4, 500, 0.95)),
            limits=((0.9, 200_000), (0.1, 900_000)),
        ),
        SessionPreset(
            "tracelab",
            turns=Mixture(((0.53, Fixed(1.0)), (0.47, LogNormal(4.85, 1.646)))),
            extra_calls=Mixture(((0.42, _NOTHING), (0.58, LogNormal(5.0, 1.42)))),
            think_s=mixture((0.31, 10.5, 1.0), (0.47, 95, 0.95), (0.187, 760, 1.0), (0.033, 26_000, 1.4)),
            tool_s=mixture((0.60, 0.12, 1.3), (0.28, 2.8, 0.7), (0.085, 22, 0.5), (0.035, 190, 1.2)),
            first_context=LogNormal(26_000, 0.45),
            added=mixture((0.50, 380, 0.8), (0.38, 900, 1.0), (0.12, 4500, 1.1)),
            output=mixture((0.6, 150, 0.8), (0.4, 480, 1.15)),
            limits=((0.75, 258_000), (0.25, 900_000)),
        ),
    )
}
