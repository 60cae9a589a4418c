"""How many tokens an answer really had, and whether that is what was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.bench.record import Record

SLACK = 0.2
SLACK_TOKENS = 4
"""A text's tokens need not be the very ones that were generated, and special tokens have no text: up to a fifth, or
four, is no disagreement."""


def count_output(records: Sequence[Record], tokens_of: Mapping[str, int]) -> None:
    """Sets `output_tokens` and judges lengths. `tokens_of`: tokens of texts, as far as known. Texts are dropped."""
    for record in records:
        record.text_tokens = tokens_of.get(record.text)
        _settle(record)
        _judge_length(record)
        record.text = ""


def _settle(record: Record) -> None:
    """The server's count, unless the received text says otherwise: then what was received."""
    usage, text = record.usage_output_tokens, record.text_tokens
    if usage is not None and not _disagrees(record, usage):
        record.output_tokens, record.counted_by = usage, "usage"
        return
    record.usage_disagrees = usage is not None
    if text is not None:
        record.output_tokens, record.counted_by = text, "text"
    elif record.num_chunks:
        record.output_tokens, record.counted_by = record.num_chunks, "chunks"


def _disagrees(record: Record, usage: int) -> bool:
    if record.text_tokens is not None:
        return _differ(usage, record.text_tokens)
    # Without a tokenizer only the impossible is seen: more than was asked for, or tokens than bytes of text (end tokens
    # have none), or fewer than chunks; but more chunks than tokens were asked for are pieces of tokens.
    if usage == 0 or usage > min(record.asked_output_tokens, len(record.text.encode()) + SLACK_TOKENS):
        return True
    return usage < record.num_chunks <= record.asked_output_tokens and _differ(usage, record.num_chunks)


def _differ(a: int, b: int) -> bool:
    return abs(a - b) > max(SLACK_TOKENS, SLACK * max(a, b))


def _judge_length(record: Record) -> None:
    if record.outcome != "ok":
        return
    asked, got = record.asked_output_tokens, record.output_tokens
    text = record.text_tokens if record.text_tokens is not None else 0
    if record.counted_by != "chunks" and max(got, text) > asked and _differ(max(got, text), asked):
        record.outcome = "duplicated"
        record.error = f"{max(got, text)} tokens, where {asked} were asked for"
    elif record.finish_reason == "length" and record.counted_by != "chunks" and _is_short(record):
        record.outcome = "truncated"
        record.error = f"ended by length at {got} of {asked} tokens"


def _is_short(record: Record) -> bool:
    """The larger count decides, as tokens without text are no fault."""
    got = max(record.output_tokens, record.usage_output_tokens or 0)
    return got < record.asked_output_tokens and _differ(got, record.asked_output_tokens)
