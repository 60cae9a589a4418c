"""Parameters of a model by part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.arithmetic.experts import FloatArray, experts_touched
from headway.arithmetic.matrices import layer_matrices, vector_params
from headway.arithmetic.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of weights. `experts` are the routed ones, of which a token passes through `active_experts`."""

    attention: int
    feed_forward: int
    shared_experts: int
    experts: int
    active_experts: int
    router: int
    embedding: int
    head: int
    norms: int

    @property
    def always(self) -> int:
        """What every step needs whatever is routed; the embedding table counts whole, as in published figures."""
        layers = self.attention + self.feed_forward + self.shared_experts + self.router + self.norms
        return layers + self.embedding + self.head

    @property
    def total(self) -> int:
        return self.always + self.experts

    @property
    def active(self) -> int:
        return self.always + self.active_experts

    @property
    def sparsity(self) -> float:
        """Total over active."""
        return self.total / self.active


def parameters(model: ModelShape) -> Parameters:
    """The head is 0 where it is tied to the embedding."""
    parts = dict.fromkeys(("attention", "feed_forward", "shared_experts", "experts", "router", "norms"), 0)
    active_experts = 0
    for layer, layers in model.layer_counts:
        parts["norms"] += layers * vector_params(layer, model.hidden)
        for matrix in layer_matrices(layer, model.hidden):
            parts[matrix.part] += layers * matrix.params
            active_experts += layers * matrix.active_params * (matrix.part == "experts")
    parts["norms"] += model.hidden
    table = model.vocab * model.hidden
    return Parameters(
        **parts, active_experts=active_experts, embedding=table, head=0 if model.tied_embeddings else table
    )


def params_touched(model: ModelShape, tokens: FloatArray | float) -> FloatArray:
    """Expected parameters that a step of `tokens` tokens reads: everything but the experts nobody was routed to."""
    touched = np.full(np.shape(tokens), float(parameters(model).always))
    for layer, layers in model.layer_counts:
        e = layer.feed_forward.experts
        if e is not None:
            size = sum(m.params for m in layer_matrices(layer, model.hidden) if m.part == "experts")
            touched += layers * size / e.total * experts_touched(e.total, e.active, tokens)
    return touched
