"""Options that take the place of a preset's quantities: what a product's sessions are like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.spreads import Spread, counts, lengths, times

if TYPE_CHECKING:
    from headway.workload.dialogue import Given

_COUNTS, _LENGTHS, _TIMES = (Spread(notation) for notation in (counts, lengths, times))
_DRAWN = {
    "turns": ("turns", counts),
    "calls_per_turn": ("calls_per_turn", counts),
    "think_time": ("think_s", times),
    "tool_time": ("tool_s", times),
    "first_tokens": ("first_tokens", lengths),
    "message_tokens": ("message_tokens", lengths),
    "tool_tokens": ("tool_tokens", lengths),
    "answer_tokens": ("answer_tokens", lengths),
    "thinking_tokens": ("thinking_tokens", lengths),
}
"""By option: the field of `Given`, and how it is written."""
OF_TOOLS = ("tool_time", "tool_tokens")
SESSION_OPTIONS: dict[str, Callable[[Callable[..., None]], Callable[..., None]]] = {
    "turns": click.option(
        "--turns", type=_COUNTS, help="Turns of a session, each of a human's message: 5, 2-8 or 5~0.6 (lognormal)."
    ),
    "calls_per_turn": click.option("--calls-per-turn", type=_COUNTS, help="The first, and one after each tool."),
    "think_time": click.option(
        "--think-time", type=_TIMES, help="From an answer to the human's next message: 40s, 10s-2min or 40s~1.2."
    ),
    "tool_time": click.option("--tool-time", type=_TIMES, help="From a call to the next of its turn, as --think-time."),
    "first_tokens": click.option(
        "--first-tokens", type=_LENGTHS, help="Tokens of a session's first prompt, behind --shared-tokens."
    ),
    "message_tokens": click.option("--message-tokens", type=_LENGTHS, help="Tokens that a human's message adds."),
    "tool_tokens": click.option("--tool-tokens", type=_LENGTHS, help="Tokens that a tool's result adds."),
    "answer_tokens": click.option("--answer-tokens", type=_LENGTHS, help="Tokens of a call's answer."),
    "thinking_tokens": click.option(
        "--thinking-tokens",
        type=_LENGTHS,
        help="Tokens before each answer that later prompts leave out.  [default: none]",
    ),
    "compact_at": click.option(
        "--compact-at",
        type=click.IntRange(16, 1_000_000),
        metavar="TOKENS",
        help="A longer prompt is made a summary of a fifth first.  [default: near the preset's context]",
    ),
}


def given(options: Mapping[str, Any]) -> Given:
    """What stands in a preset's place."""
    from headway.workload.dialogue import Given

    drawn = {
        field: notation().parse(options[name])
        for name, (field, notation) in _DRAWN.items()
        if options[name] is not None
    }
    return Given(**drawn, compact_at=options["compact_at"])
