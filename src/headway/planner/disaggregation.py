"""Prefill and decode on pools of their own: bytes to move, the ratio of the pools, and when it pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import kv_bytes_per_chip
from headway.arithmetic.shape import ShapeError
from headway.arithmetic.spans import Ints
from headway.planner.crossing import first_crossing
from headway.planner.deployment import FLOOR, Deployment
from headway.planner.price import Workload
from headway.planner.uncertain import uncertain_of_several

StepSeconds = Callable[[Ints], FloatArray]
FORMULAS = (
    "transfer = latency + KV of the prompt, of one chip / its link, at the slower end",
    "seen, layer by layer = latency + max(the last layer's part, KV / link - the prefill of the layers before it)",
    "prefill chips for each decode chip = chip-seconds of a prompt / chip-seconds of its decode steps",
    "decode steps of a request = output - 1: its prompt's step draws the first token",
    "mixed: step = max(compute, memory, network), each that of its decodes + batch / (output - 1) of a prompt's "
    "(chunked prefill); weights are read once for both",
    "in turns: time between tokens = step + batch x prompt's time / groups and stages / (output - 1) (prompts in steps "
    "of their own)",
    "tokens/s a chip = batch x output / (output - 1) / step / chips; split: decode chips and the prefill chips that "
    "keep them fed",
)
ASSUMPTIONS = (
    FLOOR,
    "mixed is the best case for one pool (arithmetic hides behind reading wholly), in turns the worst (not at all)",
    "the batch is the largest that keeps the speed and fits in memory; requests are all alike",
    "a prompt is computed alone in one step; a decode sits at the middle of its output",
)


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """At one speed for each user. None: not to be reached that way."""

    interactivity_tokens_per_s: float
    split_batch: int | None
    prefill_chips_per_decode_chip: float | None
    split_tokens_per_s_per_chip: float | None
    mixed_tokens_per_s_per_chip: float | None
    in_turns_tokens_per_s_per_chip: float | None
    gain_over_mixed: float | None
    gain_over_in_turns: float | None
    pays: str
    """yes: over both; against in turns: if a real engine hides little; no: over neither."""


@dataclass(frozen=True, slots=True)
class DisaggregationReport:
    model: str
    prefill_system: str
    decode_system: str
    prefill_chips: int
    decode_chips: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    prefill_s: float
    kv_bytes: int
    kv_bytes_per_chip: float
    transfer_s: float
    transfer_seen_s: float
    transfer_over_prefill: float
    points: tuple[SplitPoint, ...]
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def disaggregation_report(
    prefills: Deployment, decodes: Deployment, work: Workload, speeds_tokens_per_s: Sequence[float]
) -> DisaggregationReport:
    """Raises ShapeError if one sequence does not fit or nothing is left to decode, CatalogError if a system has no link
    for the cache.
    """
    if work.output < 2:
        raise ShapeError(
            "output tokens must be at least 2: the prompt's step draws the first, and none is left to decode"
        )
    for where in (prefills, decodes):
        where.check_fits(work.prompt + work.output, 1)
    prefill_s = prefills.prefill_s(work.new, work.cached)
    latency = max((w.system.scaleout.latency_s or 0.0) if w.system.scaleout else 0.0 for w in (prefills, decodes))
    ends = [(kv_bytes_per_chip(w.model, work.prompt, 1, w.precision, w.cut), w) for w in (prefills, decodes)]
    sent_s, layers = max(share / w.link_bytes_per_s for share, w in ends), len(decodes.model.layers)
    transfer_s = latency + sent_s
    return DisaggregationReport(
        decodes.name,
        prefills.system.name,
        decodes.system.name,
        prefills.cut.chips,
        decodes.cut.chips,
        work.prompt,
        work.cached,
        work.output,
        prefill_s,
        kv_bytes(decodes.model, work.prompt, decodes.precision),
        max(share for share, _ in ends),
        transfer_s,
        latency + max(sent_s / layers, sent_s - prefill_s * (layers - 1) / layers),
        transfer_s / prefill_s,
        tuple(_point(prefills, decodes, work, speed) for speed in speeds_tokens_per_s),
        uncertain_of_several((prefills.system, decodes.system)),
    )


def _point(prefills: Deployment, decodes: Deployment, work: Workload, speed: float) -> SplitPoint:
    middle = work.middle
    most = decodes.memory(middle, 1).max_batch
    chips, prompt = decodes.cut.chips, decodes.prompt(work.new, work.cached)

    def alone_s(batch: Ints) -> FloatArray:
        return decodes.floor(decodes.decode_shape(batch, middle)).step_s

    def mixed_s(batch: Ints) -> FloatArray:
        busy_s = decodes.floor(decodes.decode_shape(batch, middle)).busy_s
        return np.asarray(np.max(busy_s + batch / (work.output - 1) * prompt.busy_s[:, None], axis=0))

    def in_turns_s(batch: Ints) -> FloatArray:
        return np.asarray(alone_s(batch) + batch / (work.output - 1) * prompt.each_s)

    def rate(step_s: StepSeconds, batch: int) -> float:
        """Tokens/s of each chip that decodes, those that prompts draw counted."""
        return batch / float(step_s(np.array([batch]))[0]) * work.output / (work.output - 1) / chips

    def most_made(step_s: StepSeconds) -> tuple[int | None, float | None]:
        """(batch, its rate). One that leaves groups of sequences uneven may make less than the next that does not."""
        largest = _largest(step_s, speed, most)
        if largest is None:
            return None, None
        even = largest - largest % (decodes.cut.data * decodes.cut.pipeline) or largest
        batch = max(largest, even, key=lambda b: rate(step_s, b))
        return batch, rate(step_s, batch)

    ratio, (split, split_rate) = None, most_made(alone_s)
    if split_rate is not None:
        ratio = prefills.prefill_chip_s(work.prompt, work.cached) * split_rate / work.output
        split_rate /= 1 + ratio
    mixed, in_turns = (most_made(step_s)[1] for step_s in (mixed_s, in_turns_s))
    return SplitPoint(
        speed,
        split,
        ratio,
        split_rate,
        mixed,
        in_turns,
        _gain(split_rate, mixed),
        _gain(split_rate, in_turns),
        _pays(split_rate, mixed, in_turns),
    )


def _gain(split: float | None, rate: float | None) -> float | None:
    return split / rate - 1 if split and rate else None


def _pays(split: float | None, mixed: float | None, in_turns: float | None) -> str:
    if split is None or split <= (in_turns or 0.0):
        return "no"
    return "yes" if split > (mixed or 0.0) else "against in turns"


def _largest(step_s: StepSeconds, speed: float, most: int) -> int | None:
    """The largest batch up to `most` whose step is short enough; None: not even one sequence's is."""
    if most < 1:
        return None
    crossing = first_crossing(lambda batch: np.asarray(step_s(batch) > 1 / speed), most)
    largest = most if crossing is None else crossing - 1
    return largest or None
