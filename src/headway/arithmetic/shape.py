"""ModelShape: what one description of a model says, layer by layer. The priced model and the run model are this one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headway.arithmetic.layers import (
    Activation,
    Attention,
    AttentionKind,
    Experts,
    FeedForward,
    Latent,
    Layer,
    Rope,
    ShapeError,
    Sparse,
    State,
)
from headway.arithmetic.matrices import layer_matrices, vector_params

__all__ = [
    "Activation",
    "Attention",
    "AttentionKind",
    "Experts",
    "FeedForward",
    "Latent",
    "Layer",
    "ModelShape",
    "Rope",
    "ShapeError",
    "Sparse",
    "State",
]


@dataclass(frozen=True, slots=True)
class ModelShape:
    family: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    norm_eps: float
    max_context: int | None
    """None: the file does not say."""
    layer_counts: tuple[tuple[Layer, int], ...] = field(init=False, repr=False, compare=False)
    """Distinct layers, in order of first appearance, and how many there are of each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer_counts", tuple(Counter(self.layers).items()))

    @property
    def num_params(self) -> int:
        """Every weight once: embedding, layers with their norms, final norm, and the head unless it is tied."""
        embedding = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return embedding + self.hidden + sum(n * _layer_params(layer, self.hidden) for layer, n in self.layer_counts)

    @property
    def kv_values_per_token(self) -> int:
        return sum(layer.attention.kv_values_per_token for layer in self.layers)


def _layer_params(layer: Layer, hidden: int) -> int:
    return sum(matrix.params for matrix in layer_matrices(layer, hidden)) + vector_params(layer, hidden)
