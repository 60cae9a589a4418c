"""The turning points of decoding: where weights stop mattering, the latency floor, where KV overtakes weights and where
memory overtakes compute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.arithmetic.parameters import parameters
from headway.arithmetic.spans import Ints
from headway.planner.batching import model_critical_batch
from headway.planner.bounds import BoundShare, bounds
from headway.planner.crossing import first_crossing
from headway.planner.deployment import FLOOR, Deployment
from headway.planner.uncertain import uncertain_figures

MAX_BATCH = 1_000_000
MAX_CONTEXT = 100_000_000
FORMULAS = (
    "rule for the batch where weights stop mattering = (FLOPs/s) / (bytes/s) x (bytes a weight) / 2 x total / active; "
    "experts in a format of their own: (bytes of both) / (bytes/s) / (2 x sum of active / (FLOPs/s))",
    "latency floor = one sequence of one token: every weight that a token needs, read once",
    "drain = memory / bandwidth: no step that reads each byte once takes longer",
    "compute, weights and KV of a step are compared, each at the chip's peak",
)
ASSUMPTIONS = (
    FLOOR,
    "the rule leaves KV and attention out; the batch beside it counts the experts that are touched, at a context of 1",
    f"nothing is looked for beyond batch {MAX_BATCH:,} and {MAX_CONTEXT:,} tokens; empty: it never happens",
    "bounds: of a decode step of the batch at the context, by the fit if there is one; see each line",
)


@dataclass(frozen=True, slots=True)
class LimitsReport:
    model: str
    system: str
    chips: int
    batch: int
    context_tokens: int
    weights_stop_mattering_batch_rule: float
    weights_stop_mattering_batch: int | None
    """Compute takes as long as reading the weights."""
    latency_floor_s: float
    latency_floor_tokens_per_s: float
    drain_s: float
    kv_overtakes_weights_tokens: int | None
    """Context at which `batch` sequences read more KV than weights in a step."""
    memory_overtakes_compute_tokens: int | None
    """Context from which `batch` sequences are bound by memory."""
    compute_overtakes_memory_tokens: int | None
    """Context beyond that from which they are bound by arithmetic again: heads that share a latent multiply each entry
    that is read many times.
    """
    compute_overtakes_memory_batch: int | None
    """Batch from which steps of `context_tokens` are bound by arithmetic."""
    bounds: tuple[BoundShare, ...]
    """Of a decode step of `batch` sequences of `context_tokens`."""
    uncertain: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def limits_report(where: Deployment, batch: int, context: int) -> LimitsReport:
    chip = where.system.chip
    floor_s = float(where.floor(where.decode_shape(1, 1)).step_s)

    def compute_over_weights(batches: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        shape = where.decode_shape(batches, 1)
        read_s = where.work(shape).total("weight_bytes") / chip.hbm_bytes_per_s
        return np.asarray(where.floor(shape).compute_s >= read_s)

    def kv_over_weights(contexts: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        work = where.work(where.decode_shape(batch, contexts))
        return np.asarray(work.total("kv_read_bytes") >= work.total("weight_bytes"))

    def memory_over_compute(contexts: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        cost = where.floor(where.decode_shape(batch, contexts))
        return np.asarray(cost.memory_s >= cost.compute_s)

    memory_from = first_crossing(memory_over_compute, MAX_CONTEXT)

    def compute_over_memory_again(contexts: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return np.asarray((contexts > (memory_from or MAX_CONTEXT)) & ~memory_over_compute(contexts))

    def compute_over_memory(batches: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        cost = where.floor(where.decode_shape(batches, context))
        return np.asarray(cost.compute_s >= cost.memory_s)

    return LimitsReport(
        model=where.name,
        system=where.system.name,
        chips=where.cut.chips,
        batch=batch,
        context_tokens=context,
        weights_stop_mattering_batch_rule=model_critical_batch(chip, where.precision, parameters(where.model)),
        weights_stop_mattering_batch=first_crossing(compute_over_weights, MAX_BATCH),
        latency_floor_s=floor_s,
        latency_floor_tokens_per_s=1 / floor_s,
        drain_s=chip.drain_s,
        kv_overtakes_weights_tokens=first_crossing(kv_over_weights, MAX_CONTEXT),
        memory_overtakes_compute_tokens=memory_from,
        compute_overtakes_memory_tokens=first_crossing(compute_over_memory_again, MAX_CONTEXT),
        compute_overtakes_memory_batch=first_crossing(compute_over_memory, MAX_BATCH),
        bounds=bounds(where, batch, context),
        uncertain=uncertain_figures(where.system),
    )
