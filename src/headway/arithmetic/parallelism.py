"""How one copy of a model is cut over chips, and what each chip then holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.arithmetic.cache import cache_terms
from headway.arithmetic.formats import Precision
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.matrices import Matrix, layer_matrices, vector_params
from headway.arithmetic.shape import ModelShape

MAX_CHIPS = 100_000


@dataclass(frozen=True, slots=True)
class Parallelism:
    """One replica on tensor x context x data x pipeline chips; chips of a tensor group stand next to each other.

    `tensor` cuts every matrix, `context` the cached tokens of each sequence, `data` the sequences of the batch (with
    attention's weights copied), `pipeline` the layers. `expert` deals the experts out over that many of the stage's
    chips; what is left of tensor x context x data cuts each expert.
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    context: int = 1

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "expert", "data", "context"):
            if getattr(self, name) < 1:
                raise ShapeError(f"{name} parallelism must be at least 1, not {getattr(self, name)}")
        if self.chips > MAX_CHIPS:
            raise ShapeError(f"a replica of {self.chips} chips is more than {MAX_CHIPS}")
        if self.stage_chips % self.expert:
            raise ShapeError(
                f"expert parallelism {self.expert} does not divide the {self.stage_chips} chips of a stage; "
                f"possible: {_divisors(self.stage_chips)}"
            )

    @property
    def stage_chips(self) -> int:
        return self.tensor * self.data * self.context

    @property
    def chips(self) -> int:
        return self.stage_chips * self.pipeline

    def check(self, model: ModelShape) -> None:
        """Raises ShapeError if this model cannot be cut so; the text says what would work."""
        for layer, _ in model.layer_counts:
            heads = layer.attention.num_heads
            if heads % self.tensor:
                raise ShapeError(
                    f"tensor parallelism {self.tensor} does not divide {heads} heads; possible: {_divisors(heads)}"
                )
            experts = layer.feed_forward.experts
            if experts and experts.total % self.expert:
                raise ShapeError(
                    f"expert parallelism {self.expert} does not divide {experts.total} experts; "
                    f"possible: {_divisors(experts.total)}"
                )
        if self.pipeline > len(model.layers):
            raise ShapeError(f"pipeline parallelism {self.pipeline} is more than the {len(model.layers)} layers")

    def cut(self, matrix: Matrix, kv_heads: int) -> int:
        """Chips of a stage among which one copy of this matrix is divided."""
        if matrix.split == "experts":
            return self.stage_chips
        if matrix.split == "kv_heads":
            return kv_shards(self.tensor, kv_heads)
        return 1 if matrix.split == "none" else self.tensor


def kv_shards(tensor: int, kv_heads: int) -> int:
    """Chips among which the cached heads are divided; beyond that they are copied."""
    return math.gcd(tensor, kv_heads)


def weight_bytes(model: ModelShape, precision: Precision) -> int:
    """Of one whole copy."""
    total = 0
    for layer, layers in model.layer_counts:
        for m in layer_matrices(layer, model.hidden):
            total += layers * precision.of(m.part).size_bytes(m.params)
        total += layers * precision.small.size_bytes(vector_params(layer, model.hidden))
    tables = 1 if model.tied_embeddings else 2
    total += precision.small.size_bytes(model.hidden)
    return total + precision.tables.size_bytes(tables * model.vocab * model.hidden)


def weight_bytes_per_chip(model: ModelShape, precision: Precision, parallelism: Parallelism) -> float:
    """Of the fullest chip: layers are dealt out evenly, rounded up; the first and the last stage hold a table each."""
    return sum(weight_bytes_by_part(model, precision, parallelism).values())


def weight_bytes_by_part(model: ModelShape, precision: Precision, parallelism: Parallelism) -> dict[str, float]:
    """The same by part: those of matrices, norms, and tables (embedding and head)."""
    parallelism.check(model)
    stage = fullest_stage(model, parallelism)
    parts: dict[str, float] = {}
    for layer, layers in model.layer_counts:
        kv_heads = max(1, layer.attention.num_kv_heads)
        for m in layer_matrices(layer, model.hidden):
            held = layers * precision.of(m.part).size_bytes(m.params) / parallelism.cut(m, kv_heads)
            parts[m.part] = parts.get(m.part, 0.0) + held * stage
        norms = layers * precision.small.size_bytes(vector_params(layer, model.hidden))
        parts["norms"] = parts.get("norms", 0.0) + norms * stage
    tables = 1 if model.tied_embeddings or parallelism.pipeline > 1 else 2
    parts["tables"] = tables * precision.tables.size_bytes(model.vocab * model.hidden) / parallelism.tensor
    parts["norms"] += precision.small.size_bytes(model.hidden)
    return parts


def kv_bytes_per_chip(
    model: ModelShape, length: int, batch: int, precision: Precision, cut: Parallelism, shared: int = 0
) -> float:
    """Of the fullest chip, for `batch` sequences of `length` tokens, the first `shared` of which each group of them has
    once. KV heads beyond what there is are copied.
    """
    cut.check(model)
    sequences = -(-batch // cut.data)
    layers_bytes = 0.0
    for term in cache_terms(model, precision):
        context = cut.context if term.every else 1
        common = term.common_bytes(length, shared)
        held = common + sequences * (term.size_bytes(length) - common)
        layers_bytes += held / kv_shards(cut.tensor, term.kv_heads) / context
    return layers_bytes * fullest_stage(model, cut)


def fullest_stage(model: ModelShape, parallelism: Parallelism) -> float:
    """Share of the layers that the stage with the most of them has."""
    layers = len(model.layers)
    return -(-layers // parallelism.pipeline) / layers


def _divisors(n: int) -> str:
    return ", ".join(str(d) for d in range(1, min(n, 1024) + 1) if n % d == 0)
