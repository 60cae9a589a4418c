"""StepShape -> StepWork: FLOPs and bytes of a step on each chip, operation by operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.attends import Attend, attends
from headway.arithmetic.experts import FloatArray, experts_touched
from headway.arithmetic.formats import Precision, Rate
from headway.arithmetic.layers import Layer, State
from headway.arithmetic.matrices import Matrix, Part, layer_matrices
from headway.arithmetic.parallelism import Parallelism, kv_shards
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.transfers import Transfer, step_transfers


@dataclass(frozen=True, slots=True)
class Op:
    """One kind of operation in all `layers` layers that have it, on the busiest chip; arrays [...], a step each.

    Float64 holds these integers exactly up to 2^53. `activation_bytes` is what goes in and out of it: a lower bound of
    a step leaves it out, because it may stay on the chip.
    """

    name: str
    part: Part
    kind: str
    """The layer's attention kind."""
    layers: int
    rate: Rate
    flops: FloatArray
    weight_bytes: FloatArray
    kv_read_bytes: FloatArray
    kv_write_bytes: FloatArray
    activation_bytes: FloatArray

    @property
    def memory_bytes(self) -> FloatArray:
        return self.weight_bytes + self.kv_read_bytes + self.kv_write_bytes

    @property
    def intensity(self) -> FloatArray:
        """FLOPs a byte, activations counted, as a roofline is drawn."""
        moved = self.memory_bytes + self.activation_bytes
        return np.divide(self.flops, moved, out=np.zeros_like(self.flops), where=moved > 0)


@dataclass(frozen=True, slots=True)
class StepWork:
    """What the busiest chip of each stage does for one step, all stages together, and what it sends."""

    ops: tuple[Op, ...]
    transfers: tuple[Transfer, ...]
    layers: int
    expert_layers: int
    experts_active: int = 0
    """Routed experts that a token passes through, where layers differ in it the most."""
    experts_total: int = 0
    """Of how many, in that layer."""

    def total(self, field: str, part: Part | None = None) -> FloatArray:
        """Sum of one of Op's array fields, over one part or all."""
        chosen = [getattr(op, field) for op in self.ops if part in (None, op.part)]
        return np.asarray(sum(chosen, start=np.float64(0)), np.float64)

    def flops_at(self, rate: Rate) -> FloatArray:
        return np.asarray(sum((op.flops for op in self.ops if op.rate == rate), start=np.float64(0)), np.float64)

    @property
    def memory_bytes(self) -> FloatArray:
        return self.total("memory_bytes")

    @property
    def rates(self) -> tuple[Rate, ...]:
        return tuple(dict.fromkeys(op.rate for op in self.ops))


def step_work(
    model: ModelShape,
    shape: StepShape,
    precision: Precision | None = None,
    cut: Parallelism | None = None,
    imbalance: float = 1.0,
    domain: int = 1 << 30,
) -> StepWork:
    """`shape` counts the whole replica's rows. `imbalance`: load of the busiest chip's experts over the mean. `domain`:
    chips that a scale-up link joins. Norms, softmax, rotation and sampling are left out: under 1% of the FLOPs.

    Raises ShapeError if the model cannot be cut so, ValueError if the shape was counted for other spans.
    """
    precision, cut = precision or Precision(), cut or Parallelism()
    cut.check(model)
    _check_spans(model, shape)
    ops: list[Op] = []
    for layer, layers in model.layer_counts:
        ops.extend(_layer_ops(layer, layers, model, shape, precision, cut, imbalance))
    ops.extend(_table_ops(model, shape, precision, cut))
    expert_layers = sum(layers for layer, layers in model.layer_counts if layer.feed_forward.experts)
    experts = [(e.active, e.total) for layer, _ in model.layer_counts if (e := layer.feed_forward.experts)]
    transfers = step_transfers(model, shape, precision, cut, imbalance, domain)
    return StepWork(tuple(ops), transfers, len(model.layers), expert_layers, *max(experts, default=(0, 0)))


def _check_spans(model: ModelShape, shape: StepShape) -> None:
    needed = {part.span for layer, _ in model.layer_counts for part in attends(layer.attention)}
    if not needed <= set(shape.spans):
        raise ValueError("the step's shape was counted for another model: its spans differ")


def _layer_ops(
    layer: Layer, layers: int, model: ModelShape, shape: StepShape, p: Precision, cut: Parallelism, imbalance: float
) -> Iterator[Op]:
    a = layer.attention
    for matrix in layer_matrices(layer, model.hidden):
        yield _matrix_op(matrix, layer, layers, shape, p, cut, imbalance)
    for part in attends(a):
        yield _attend_op(part, a.kind, layers, shape, p, cut)
    if a.state:
        yield _state_op(a.state, layers, shape, p, cut)


def _matrix_op(
    m: Matrix, layer: Layer, layers: int, shape: StepShape, p: Precision, cut: Parallelism, imbalance: float
) -> Op:
    parts = cut.cut(m, max(1, layer.attention.num_kv_heads))
    whole_bytes = np.float64(layers * p.of(m.part).size_bytes(m.params))
    if m.split == "experts":
        tokens = shape.tokens.astype(np.float64)
        weights = whole_bytes / m.copies * experts_touched(m.copies, m.used, tokens) / parts
        tokens = tokens * imbalance
    else:
        tokens = shape.local_tokens(cut.data, cut.context)
        weights = whole_bytes * (tokens > 0) / parts
    active = layers * m.used
    act_bytes = p.activations.bits_per_value / 8
    return _op(
        m.name,
        m.part,
        layer.attention.kind,
        layers,
        p.rate_of(m.part),
        flops=2.0 * active * m.inputs * m.outputs * tokens / parts,
        weight_bytes=weights,
        activation_bytes=active * (m.inputs + m.outputs) * act_bytes * tokens / parts,
    )


def _attend_op(part: Attend, kind: str, layers: int, shape: StepShape, p: Precision, cut: Parallelism) -> Op:
    g = shape.spans.index(part.span)
    heads, share = kv_shards(cut.tensor, part.kv_heads), shape.busiest_share(cut.data) / cut.context
    pairs, reads, writes = (x[g] * share for x in (shape.pairs, shape.reads, shape.writes))
    flops = part.flops * pairs
    if part.expanded_flops:  # The cheaper way for the whole step; new tokens' own expansion is the `latent up` matrix.
        cached = np.maximum(0.0, reads - shape.tokens * share)
        flops = np.minimum(flops, part.expanded_flops * pairs + part.expand_flops * cached)
    entry = layers * part.values / heads
    tokens = shape.local_tokens(cut.data, cut.context)
    return _op(
        f"attend {part.name}",
        "attention",
        kind,
        layers,
        p.attention_rate,
        flops=layers * flops / cut.tensor,
        kv_read_bytes=p.kv.array_bytes(entry * reads),
        kv_write_bytes=p.kv.array_bytes(entry * writes),
        activation_bytes=layers * 2.0 * part.values * tokens * p.small.bits_per_value / 8 / cut.tensor,
    )


def _state_op(s: State, layers: int, shape: StepShape, p: Precision, cut: Parallelism) -> Op:
    """Write, read and (delta rule) ask the state once a token; move it in and out once a sequence and step."""
    share = shape.busiest_share(cut.data) / cut.tensor
    sequences = shape.sequences * share
    moved = layers * (s.values * p.state.bits_per_value + s.conv_values * p.small.bits_per_value) / 8 * sequences
    tokens = shape.tokens * share
    return _op(
        "state",
        "attention",
        "linear",
        layers,
        p.attention_rate,
        flops=layers * 2.0 * s.values * (3 if s.delta else 2) * tokens,
        kv_read_bytes=moved,
        kv_write_bytes=moved,
    )


def _table_ops(model: ModelShape, shape: StepShape, p: Precision, cut: Parallelism) -> Iterator[Op]:
    row_bytes = p.tables.size_bytes(model.hidden)
    tokens = shape.local_tokens(cut.data, cut.context)
    yield _op("embed", "embedding", "", 1, "bf16", flops=tokens * 0.0, weight_bytes=row_bytes * tokens)
    sampled = np.maximum(shape.sampled * shape.busiest_share(cut.data) / cut.context, np.minimum(shape.sampled, 1.0))
    table = np.float64(p.tables.size_bytes(model.vocab * model.hidden))
    yield _op(
        "logits",
        "head",
        "",
        1,
        "bf16",
        flops=2.0 * model.vocab * model.hidden * sampled / cut.tensor,
        weight_bytes=table * (sampled > 0) / cut.tensor,
        activation_bytes=(model.hidden + model.vocab / cut.tensor) * sampled * p.small.bits_per_value / 8,
    )


def _op(name: str, part: Part, kind: str, layers: int, rate: Rate, flops: FloatArray, **moved: FloatArray) -> Op:
    zero = np.zeros_like(np.asarray(flops, np.float64))
    names = ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes")
    return Op(name, part, kind, layers, rate, np.asarray(flops), *(np.asarray(moved.get(n, zero)) for n in names))
