"""Decode time, tokens/s a user and tokens/s a chip over batch and context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.layers import ShapeError
from headway.planner.deployment import CALIBRATED, FLOOR, Deployment
from headway.planner.uncertain import uncertain_figures

FORMULAS = (
    "tokens/s a user = 1 / step",
    "tokens/s a chip = batch / step / chips",
    "step (floor) = max(FLOPs / peak, bytes / bandwidth, bytes sent / link)",
    "bytes = weights touched + batch x KV of the context; experts touched = E (1 - (1 - k/E)^batch)",
)
ASSUMPTIONS = (
    "decode only: no prompt is computed in these steps",
    "every sequence is as long as the context",
    FLOOR,
    "a batch that does not fit is bound by memory capacity: its times are what they would be if it did",
    f"engine: {CALIBRATED}; empty where there is no fit",
    "power is not judged here: `plan limits` says what is known of it",
)
SHARED = (
    "floor: the tokens that all have in common are kept once by each group of sequences (--data) and read once a step, "
    "but where each sequence chooses what it reads; an engine reads them for each sequence"
)


@dataclass(frozen=True, slots=True)
class DecodePoint:
    context_tokens: int
    batch: int
    step_s: float
    bound: str
    interactivity_tokens_per_s: float
    tokens_per_s_per_chip: float
    engine_step_s: float | None
    engine_tokens_per_s_per_chip: float | None
    fits: bool


@dataclass(frozen=True, slots=True)
class DecodeReport:
    model: str
    system: str
    chips: int
    weight_format: str
    kv_format: str
    would_fit: str
    """In place of the first point that does not."""
    shared_tokens: int
    points: tuple[DecodePoint, ...]
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def decode_report(where: Deployment, batches: Sequence[int], contexts: Sequence[int], shared: int = 0) -> DecodeReport:
    """Every batch with every context. `shared`: tokens at the start that all have in common. Raises ShapeError if a
    context has no others.
    """
    if shared and shared >= min(contexts):
        raise ShapeError(f"--shared {shared:,} must be less than each --context, and {min(contexts):,} is not more")
    batch, context = np.array(batches, np.int64), np.array(contexts, np.int64)[:, None]
    cost = where.floor(where.decode_shape(batch, context, shared=shared))
    engine = where.engine(where.decode_shape(batch, context))
    floors = cost.step_s
    bounds = np.array(cost.bound).reshape(floors.shape)
    points = []
    for i, tokens in enumerate(contexts):
        most = where.memory(tokens, 1, shared).max_batch
        for j, size in enumerate(batches):
            engine_s = None if engine is None else float(engine.step_s[i, j])
            points.append(
                DecodePoint(
                    tokens,
                    size,
                    float(floors[i, j]),
                    str(bounds[i, j]) if size <= most else "memory_capacity",
                    1 / float(floors[i, j]),
                    size / float(floors[i, j]) / where.cut.chips,
                    engine_s,
                    None if engine_s is None else size / engine_s / where.cut.chips,
                    size <= most,
                )
            )
    return DecodeReport(
        where.name,
        where.system.name,
        where.cut.chips,
        where.precision.named,
        where.precision.kv.name,
        _would_fit(where, points, shared),
        shared,
        tuple(points),
        uncertain_figures(where.system),
        assumptions=(*ASSUMPTIONS, *((SHARED,) if shared else ())),
    )


def _would_fit(where: Deployment, points: Sequence[DecodePoint], shared: int) -> str:
    point = next((point for point in points if not point.fits), None)
    if point is None:
        return "all fit"
    context, batch = point.context_tokens, point.batch
    return f"{batch} x {context:,} tokens: {where.would_fit(context, batch, shared)}"
