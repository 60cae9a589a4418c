"""FLOPs and bytes of a step, divided into what a row needs for itself and what the step needs once.

They are those of the whole model, as one chip would do it: where a cut keeps copies, its chips together read more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headway.arithmetic.attends import spans
from headway.arithmetic.experts import FloatArray
from headway.arithmetic.spans import Ints, Span
from headway.arithmetic.work import StepWork, step_work
from headway.simulator.step_probes import empty_shape

if TYPE_CHECKING:
    from headway.arithmetic.formats import Precision
    from headway.arithmetic.shape import ModelShape

_MANY = 1 << 20


class _Unit(NamedTuple):
    """Of one span: FLOPs of a pair; FLOPs of a pair and of a cached entry the other way, where latent attention has
    one; bytes of an entry read and of one written.
    """

    pair_flops: float
    expanded_pair_flops: float
    expand_flops: float
    read_bytes: float
    write_bytes: float


class WorkTable:
    """For steps of at most `max_step_tokens` tokens. All is asked of `step_work`, once."""

    def __init__(self, model: ModelShape, precision: Precision, max_step_tokens: int) -> None:
        self._model, self._precision = model, precision
        self._spans = spans(model)
        every = self._work(np.arange(max_step_tokens + 1))
        self.rates = every.rates
        """Of its products."""
        self._flops: list[float] = every.total("flops").tolist()
        self._weight_bytes: list[float] = every.total("weight_bytes").tolist()
        sampled = self._work(0, sampled=1)
        self._sampled_flops = float(sampled.total("flops"))
        self._sampling_bytes = float(sampled.total("weight_bytes"))
        self._sequence_bytes = _kv_bytes(self._work(0, sequences=1))
        self._units = tuple(self._unit(span) for span in range(len(self._spans)))
        self._even = None if self._spans != (Span(),) or self._sequence_bytes else _whole(self._units[0])
        """Where all layers have plain full attention: whole numbers for a pair, an entry read and an entry written."""

    def _work(self, tokens: int | Ints, **counts: int | Ints) -> StepWork:
        sums = {name: np.asarray(count, np.int64) for name, count in counts.items()}
        return step_work(self._model, empty_shape(self._spans, tokens, **sums), self._precision)

    def _unit(self, span: int) -> _Unit:
        def of(**counts: int) -> StepWork:
            one = np.zeros(len(self._spans), np.int64)
            one[span] = 1
            return self._work(0, **{name: one * count for name, count in counts.items()})

        none, entry = (float(of(pairs=_MANY, reads=reads).total("flops")) for reads in (0, 1))
        direct = float(of(pairs=1, reads=_MANY).total("flops"))
        return _Unit(direct, none / _MANY, entry - none, _kv_bytes(of(reads=1)), _kv_bytes(of(writes=1)))

    def shared(self, tokens: int, sampled: int) -> tuple[int, int]:
        """FLOPs and weight bytes of a step with so many tokens, of which so many rows draw; attention is left out."""
        flops = self._flops[tokens] + self._sampled_flops * sampled
        return round(flops), round(self._weight_bytes[tokens] + (self._sampling_bytes if sampled else 0.0))

    def own(self, starts: Ints, counts: Ints, steps: int) -> tuple[Ints, Ints]:
        """[R] FLOPs of attention and [R] bytes of KV, state included, of `steps` steps. More than one step: each row
        has one token in each, behind the last one's, so that it attends what it would in one chunk.
        """
        if self._even is not None:
            return _full_attention(self._even, starts, counts, steps)
        flops = np.zeros(len(starts), np.int64)
        moved_bytes = np.full(len(starts), self._sequence_bytes * steps)
        for span, unit in zip(self._spans, self._units, strict=True):
            tokens = counts if steps == 1 else np.full(len(starts), steps)
            pairs = span.pairs(starts, tokens)
            reads = span.reads(starts, counts) if steps == 1 else pairs
            flops += np.rint(_attention_flops(unit, pairs, reads, tokens)).astype(np.int64)
            moved_bytes += reads * unit.read_bytes + span.writes(starts, tokens) * unit.write_bytes
        return flops, np.rint(moved_bytes).astype(np.int64)


def _whole(unit: _Unit) -> tuple[int, int, int] | None:
    each = (unit.pair_flops, unit.read_bytes, unit.write_bytes)
    if unit.expand_flops or not all(map(float.is_integer, each)):
        return None
    pair_flops, read_bytes, write_bytes = map(int, each)
    return pair_flops, read_bytes, write_bytes


def _full_attention(each: tuple[int, int, int], starts: Ints, counts: Ints, steps: int) -> tuple[Ints, Ints]:
    """The same as for any span, in fewer operations."""
    pair_flops, read_bytes, write_bytes = each
    tokens: Ints = counts if steps == 1 else np.full_like(counts, steps)
    pairs: Ints = starts * tokens + tokens * (tokens + 1) // 2
    reads: Ints = starts + counts if steps == 1 else pairs
    return pairs * pair_flops, reads * read_bytes + tokens * write_bytes


def _attention_flops(unit: _Unit, pairs: Ints, reads: Ints, tokens: Ints) -> FloatArray:
    """The cheaper way for all rows together."""
    direct = np.asarray(pairs * unit.pair_flops, np.float64)
    if not unit.expand_flops:
        return direct
    other = pairs * unit.expanded_pair_flops + np.maximum(reads - tokens, 0) * unit.expand_flops
    return direct if direct.sum() <= other.sum() else other


def _kv_bytes(work: StepWork) -> float:
    return float(work.total("kv_read_bytes") + work.total("kv_write_bytes"))
