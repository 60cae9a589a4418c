"""What an answer took: OpenAI's counts, and the receipt under the extension key `headway`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.scheduler.receipt import Receipt

NS_PER_S = 1_000_000_000


class PromptTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class ReceiptUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the request's sequences; `ttft_s` and `queue_s` of the first to get there, `tpot_s` a mean."""

    queue_s: float
    prefill_s: float
    decode_s: float
    host_share_s: float
    device_share_s: float
    ttft_s: float
    tpot_s: float
    steps: int
    tokens_computed: int
    tokens_reused: int
    tokens_drafted: int
    tokens_accepted: int
    tokens_generated: int
    preemptions: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    headway: ReceiptUsage


def usage_of(prompt_lengths: Sequence[int], receipts: Sequence[Receipt]) -> Usage:
    """`receipts`: n for each prompt, prompt by prompt. A prompt counts once, however many sequences continue it."""
    n = len(receipts) // len(prompt_lengths)
    cached = [
        min(length, *(receipt.tokens_reused for receipt in receipts[i * n : (i + 1) * n]))
        for i, length in enumerate(prompt_lengths)
    ]
    prompt_tokens = sum(prompt_lengths)
    generated = generated_of(receipts)
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=generated,
        total_tokens=prompt_tokens + generated,
        prompt_tokens_details=PromptTokensDetails(sum(cached)),
        headway=_receipt_usage(receipts),
    )


def _receipt_usage(receipts: Sequence[Receipt]) -> ReceiptUsage:
    gaps = sum(max(receipt.tokens_generated - 1, 0) for receipt in receipts)
    decode_ns = sum(receipt.decode_ns for receipt in receipts)
    return ReceiptUsage(
        queue_s=min(receipt.queue_ns for receipt in receipts) / NS_PER_S,
        prefill_s=sum(receipt.prefill_ns for receipt in receipts) / NS_PER_S,
        decode_s=decode_ns / NS_PER_S,
        host_share_s=sum(receipt.host_share_ns for receipt in receipts) / NS_PER_S,
        device_share_s=sum(receipt.device_share_ns for receipt in receipts) / NS_PER_S,
        ttft_s=min(receipt.ttft_ns for receipt in receipts) / NS_PER_S,
        tpot_s=decode_ns / gaps / NS_PER_S if gaps else 0.0,
        steps=sum(receipt.steps for receipt in receipts),
        tokens_computed=sum(receipt.tokens_computed for receipt in receipts),
        tokens_reused=sum(receipt.tokens_reused for receipt in receipts),
        tokens_drafted=sum(receipt.tokens_drafted for receipt in receipts),
        tokens_accepted=sum(receipt.tokens_accepted for receipt in receipts),
        tokens_generated=generated_of(receipts),
        preemptions=sum(receipt.preemptions for receipt in receipts),
    )


def generated_of(receipts: Sequence[Receipt]) -> int:
    return sum(receipt.tokens_generated for receipt in receipts)
