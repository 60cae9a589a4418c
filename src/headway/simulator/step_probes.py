"""What an operation's cost depends on, found by asking `step_work` with unit steps: one token, one pair, one read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headway.arithmetic.spans import Span
from headway.arithmetic.step_shape import StepShape
from headway.arithmetic.work import Op, StepWork
from headway.roofline import StepCost

_MANY = 1 << 20


@dataclass(frozen=True, slots=True)
class VaryingOp:
    """An operation that depends on more than the number of tokens: FLOPs and bytes for a unit of each.

    Where latent attention's FLOPs can be had in a second way, `expanded_pair_flops` and `expand_flops` (a cached entry)
    are those of it.
    """

    span: int
    """-1: it depends on no span."""
    flop_s: list[float]
    """[T + 1] seconds of one FLOP, by the step's new tokens."""
    byte_s: float
    pair_flops: float
    expanded_pair_flops: float
    expand_flops: float
    token_flops: float
    sampled_flops: float
    token_bytes: float
    sampled_bytes: float
    sampling_bytes: float
    """Once, if any row samples."""
    sequence_bytes: float
    read_bytes: float
    write_bytes: float

    def flops(self, tokens: float, sampled: float, pairs: Any, reads: Any, larger: Any, smaller: Any) -> Any:
        fixed = self.token_flops * tokens + self.sampled_flops * sampled
        if self.span < 0:
            return fixed
        flops = pairs[self.span] * self.pair_flops
        if self.expand_flops:
            cached = larger(reads[self.span] - tokens, 0)
            flops = smaller(flops, pairs[self.span] * self.expanded_pair_flops + cached * self.expand_flops)
        return flops + fixed

    def moved_bytes(self, tokens: float, sequences: float, sampled: float, reads: Any, writes: Any) -> Any:
        fixed = self.token_bytes * tokens + self.sampled_bytes * sampled + self.sequence_bytes * sequences
        if sampled:
            fixed += self.sampling_bytes
        if self.span < 0:
            return fixed
        return reads[self.span] * self.read_bytes + (writes[self.span] * self.write_bytes + fixed)


def empty_shape(spans: tuple[Span, ...], tokens: Any, **counts: Any) -> StepShape:
    """A step of so many tokens and nothing else but `counts`."""
    tokens = np.asarray(tokens, np.int64)
    zero, by_span = np.zeros_like(tokens), np.zeros((len(spans), *tokens.shape), np.int64)
    none = {"sequences": zero, "sampled": zero, "pairs": by_span, "reads": by_span, "writes": by_span}
    return StepShape(spans, tokens, **none | counts)


class Probes:
    def __init__(self, work: Callable[[StepShape], StepWork], spans: tuple[Span, ...]) -> None:
        self._work = work
        self._spans = spans
        every = range(len(spans))
        self._zero = self._ops()
        self._token = self._ops(tokens=1)
        self._sequence = self._ops(sequences=1)
        self._sampled = [self._ops(sampled=n) for n in (1, 2)]
        self._pair = [self._ops(pairs=self._of(g, 1), reads=self._of(g, _MANY)) for g in every]
        self._read = [self._ops(reads=self._of(g, 1)) for g in every]
        self._write = [self._ops(writes=self._of(g, 1)) for g in every]
        units = [self._sequence, *self._sampled, *self._pair, *self._read, *self._write]
        self.varying = {i for i, op in enumerate(self._zero) if any(_size(unit[i]) != _size(op) for unit in units)}
        """Indices of the operations that depend on more than tokens."""

    def _of(self, span: int, count: int) -> Any:
        column = np.zeros(len(self._spans), np.int64)
        column[span] = count
        return column

    def _ops(self, tokens: int = 0, **counts: Any) -> tuple[Op, ...]:
        sums = {name: np.asarray(count, np.int64) for name, count in counts.items()}
        return self._work(empty_shape(self._spans, tokens, **sums)).ops

    def op(self, i: int, price: Callable[[Op], StepCost], length: int) -> VaryingOp:
        """`price`: what an operation alone costs at every number of tokens; there are `length` of them."""
        span = next((g for g in range(len(self._spans)) if _size(self._pair[g][i]) != _size(self._zero[i])), -1)
        flop, byte, activation = _units(self._zero[i])
        activations_count = bool(np.any(price(activation).memory_s))

        def moved(op: Op) -> float:
            return float(op.memory_bytes + op.activation_bytes if activations_count else op.memory_bytes)

        one, two = (ops[i] for ops in self._sampled)
        pair_flops, expanded_pair_flops, expand_flops = self._pair_flops(i, span)
        return VaryingOp(
            span=span,
            flop_s=np.broadcast_to(price(flop).compute_s, length).tolist(),
            byte_s=float(np.max(price(byte).memory_s)),
            pair_flops=pair_flops,
            expanded_pair_flops=expanded_pair_flops,
            expand_flops=expand_flops,
            token_flops=float(self._token[i].flops),
            sampled_flops=float(two.flops - one.flops),
            token_bytes=moved(self._token[i]),
            sampled_bytes=moved(two) - moved(one),
            sampling_bytes=2 * moved(one) - moved(two),
            sequence_bytes=moved(self._sequence[i]),
            read_bytes=moved(self._read[span][i]) if span >= 0 else 0.0,
            write_bytes=moved(self._write[span][i]) if span >= 0 else 0.0,
        )

    def _pair_flops(self, i: int, span: int) -> tuple[float, float, float]:
        """A pair's FLOPs; and if expanding few entries for many pairs is cheaper, a pair's and an entry's then."""
        if span < 0:
            return 0.0, 0.0, 0.0
        direct = float(self._pair[span][i].flops)
        none, one = (
            float(self._ops(pairs=self._of(span, _MANY), reads=self._of(span, entries))[i].flops) for entries in (0, 1)
        )
        return direct, none / _MANY, one - none


def _units(op: Op) -> tuple[Op, Op, Op]:
    """The same operation with one FLOP, one byte of KV, one byte of activations, and nothing else."""
    none, one = np.zeros(1), np.ones(1)
    nothing = replace(op, flops=none, weight_bytes=none, kv_read_bytes=none, kv_write_bytes=none, activation_bytes=none)
    return replace(nothing, flops=one), replace(nothing, kv_read_bytes=one), replace(nothing, activation_bytes=one)


def _size(op: Op) -> tuple[float, float, float]:
    return float(op.flops), float(op.memory_bytes), float(op.activation_bytes)
