"""A step's work as seconds at a system's peaks, kind by kind of operation: what coefficients are then applied to.

Products of one kind and rate do about as many FLOPs for a byte, so they are one column; the head sees fewer rows.

Works of different models and systems stand side by side in one table, so that a fit prices thousands of steps at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.formats import Rate
from headway.arithmetic.matrices import Part
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.transfers import Transfer
from headway.arithmetic.work import StepWork
from headway.catalog import Chip, System
from headway.roofline.floor import rate_flops_per_s, transfer_s

KINDS = ("dense", "experts", "attention")
RATES: tuple[Rate, ...] = ("bf16", "fp8", "fp4", "int8")
WIDENED = len(RATES)
"""In place of an index into RATES."""
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Terms:
    """N steps. `compute_s`, `memory_s` [N, K] at the peaks; `kind`, `rate` [N, K] index KINDS and RATES, or WIDENED."""

    compute_s: FloatArray
    memory_s: FloatArray
    kind: Indices
    rate: Indices
    rows: FloatArray
    """[N] tokens that a matrix product sees on one chip."""
    expert_rows: FloatArray
    """[N] the same where tokens of all groups of sequences meet: no group is fuller than another."""
    network_s: FloatArray
    """[N] bytes over bandwidths."""
    rounds: FloatArray
    """[N] rounds of all collectives but those of experts: each waits for the one before."""
    expert_rounds: FloatArray
    launches: FloatArray
    layers: FloatArray
    expert_layers: FloatArray
    sequences: FloatArray
    """[N] of the fullest group: each group has a host of its own."""
    spread: FloatArray
    """[N] by how much the busiest chip's experts are asked beyond the mean, if tokens chose at random; 0: no chip has
    experts of its own.
    """
    tokens: FloatArray
    """[N] of all chips."""
    missed: FloatArray
    """[N] logarithm of the chance that a token does not ask for an expert; 0: there are none, or it asks for all."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Indices) -> Terms:
        return Terms(*(getattr(self, name)[rows] for name in self.__slots__))


def op_kind(part: Part, name: str) -> int:
    """Index into KINDS: projections of attention are dense products, what reads the cache is `attention`."""
    if name.startswith("attend ") or name == "state":
        return 2
    return 1 if part == "experts" else 0


def step_terms(work: StepWork, shape: StepShape, system: System, cut: Parallelism) -> Terms:
    """`shape` of N steps [N]. Raises CatalogError where the chip lacks a rate or the system a link."""
    rows = np.atleast_1d(np.maximum(shape.local_tokens(cut.data, cut.context), 1.0))
    count = len(rows)

    def each(values: object) -> FloatArray:
        return np.broadcast_to(np.asarray(values, np.float64), count).astype(np.float64)

    columns: dict[tuple[int, int, bool], list[FloatArray]] = {}
    for op in work.ops:
        peak = rate_flops_per_s(system.chip, op.rate) if np.any(op.flops) else 1.0
        rate = WIDENED if is_widened(system.chip, op.rate) else RATES.index(op.rate)
        key = op_kind(op.part, op.name), rate, op.part == "head"
        column = columns.setdefault(key, [np.zeros(count), np.zeros(count)])
        column[0] += each(op.flops) / peak
        column[1] += each(op.memory_bytes + op.activation_bytes) / system.chip.hbm_bytes_per_s
    network_s = sum((each(transfer_s(t, system)) for t in work.transfers), start=np.zeros(count))
    waited = {True: 0, False: 0}
    for t in work.transfers:
        waited["expert" in t.name] += rounds(t)
    return Terms(
        np.stack([compute_s for compute_s, _ in columns.values()], -1),
        np.stack([memory_s for _, memory_s in columns.values()], -1),
        np.tile(np.array([kind for kind, _, _ in columns]), (count, 1)),
        np.tile(np.array([rate for _, rate, _ in columns]), (count, 1)),
        rows,
        each(expert_rows(shape, cut)),
        network_s,
        each(waited[False]),
        each(waited[True]),
        each(launches(work, system.chip)),
        each(work.layers),
        each(work.expert_layers),
        each(shape.sequences * shape.busiest_share(cut.data)),
        each(expert_spread(work, shape, cut)),
        each(shape.tokens),
        each(expert_missed(work)),
    )


def expert_rows(shape: StepShape, cut: Parallelism) -> FloatArray:
    return np.asarray(np.maximum(shape.tokens / (cut.data * cut.context), 1.0))


def launches(work: StepWork, chip: Chip) -> int:
    """Operations of a step, twice those that the chip multiplies in narrow formats: what goes into them is quantised
    first.
    """
    return sum(op.layers * (1 if op.rate == "bf16" or is_widened(chip, op.rate) else 2) for op in work.ops)


def is_widened(chip: Chip, rate: Rate) -> bool:
    """Whether the chip multiplies such values in a wider format, as Hopper does those of four bits."""
    own = getattr(chip, f"{rate}_flops_per_s")
    return rate != "bf16" and (own is None or own < rate_flops_per_s(chip, rate))


def expert_spread(work: StepWork, shape: StepShape, cut: Parallelism) -> FloatArray:
    """Of G chips that get l tokens each on the average, the busiest gets about l + sqrt(2 l ln G): the largest of G
    Poisson counts. Never more than all of them.
    """
    if cut.expert == 1 or not work.expert_layers:
        return np.zeros(np.shape(shape.tokens))
    mean = np.maximum(shape.tokens * work.experts_active / cut.expert, 1e-9)
    return np.asarray(np.minimum(np.sqrt(2 * np.log(cut.expert) / mean), cut.expert - 1.0))


def expert_missed(work: StepWork) -> float:
    return math.log1p(-work.experts_active / work.experts_total) if work.experts_active < work.experts_total else 0.0


def experts_left(tokens: FloatArray, missed: FloatArray | float, variety: FloatArray | float) -> FloatArray:
    """Of the experts touched if all tokens chose at random, the share touched if one of them and `variety` of the
    others do, and the rest follow: near 1 for one token and for very many.
    """
    many = np.maximum(tokens, 1.0)
    own, touched = np.expm1(missed * (1 + variety * (many - 1))), np.expm1(missed * many)
    return np.divide(own, touched, out=np.ones(np.shape(touched)), where=touched < 0)


def most_read(tokens: FloatArray, missed: FloatArray | float) -> FloatArray:
    """All of a chip's experts over those touched if all tokens chose at random: even the busiest reads no more."""
    touched = -np.expm1(missed * np.maximum(tokens, 1.0))
    return np.asarray(np.divide(1.0, touched, out=np.full(np.shape(touched), np.inf), where=touched > 0))


def all_experts_read(t: Terms) -> Terms:
    """The same steps by kernels that read all experts of a chip, whichever are asked for."""
    touched = np.where(t.missed < 0, -np.expm1(t.missed * np.maximum(t.tokens, 1.0)), 1.0)
    memory_s = np.where(t.kind == KINDS.index("experts"), t.memory_s / touched[:, None], t.memory_s)
    return replace(t, memory_s=memory_s, missed=np.zeros(len(t)))


def rounds(t: Transfer) -> int:
    """A round outside of the scale-up domain counts twice."""
    return t.count * (t.inside_rounds + 2 * t.outside_rounds)


def side_by_side(parts: Sequence[Terms]) -> Terms:
    """One after the other; narrower tables are filled up with operations that take no time."""
    widest = max((part.compute_s.shape[1] for part in parts), default=0)

    def padded(table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return np.pad(table, ((0, 0), (0, widest - table.shape[1]))) if table.ndim == 2 else table

    return Terms(*(np.concatenate([padded(getattr(part, name)) for part in parts]) for name in Terms.__slots__))
