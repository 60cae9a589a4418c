"""What is this model: parameters by part, kinds of layers, cache a token."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from headway.arithmetic.cache import kv_bytes_constant, kv_bytes_per_token
from headway.arithmetic.formats import Precision
from headway.arithmetic.layers import Attention
from headway.arithmetic.parallelism import weight_bytes
from headway.arithmetic.parameters import Parameters, parameters
from headway.arithmetic.shape import ModelShape
from headway.catalog import Published

FORMULAS = (
    "parameters = sum over matrices of inputs x outputs x copies, and norms, biases and tables",
    "active = all but the routed experts + active / total of those",
    "bytes = parameters x bits of the format, its scales included / 8",
)
ASSUMPTIONS = (
    "counts come from the configuration alone, without modules that only predict further tokens or see images",
    "active: a token's share of the routed experts and everything else, embedding table included",
)


@dataclass(frozen=True, slots=True)
class ModelReport:
    model: str
    family: str
    hidden: int
    vocab: int
    max_context_tokens: int | None
    """None: the file does not say."""
    layers: dict[str, int]
    """By kind of attention and of feed-forward."""
    params: Parameters
    total_params: int
    active_params: int
    published_total_params: float | None
    published_active_params: float | None
    total_gap: float | None
    """(counted - published) / published; makers round."""
    active_gap: float | None
    weight_format: str
    weight_bytes: int
    kv_format: str
    kv_bytes_per_token: float
    """Once every window is full."""
    kv_bytes_constant: int
    source: str | None
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def model_report(name: str, model: ModelShape, precision: Precision, published: Published | None) -> ModelReport:
    counted = parameters(model)
    total, active = (published.total_params, published.active_params) if published else (None, None)
    return ModelReport(
        model=name,
        family=model.family,
        hidden=model.hidden,
        vocab=model.vocab,
        max_context_tokens=model.max_context,
        layers=dict(Counter(_kind(model, i) for i in range(len(model.layers)))),
        params=counted,
        total_params=counted.total,
        active_params=counted.active,
        published_total_params=total,
        published_active_params=active,
        total_gap=_gap(counted.total, total),
        active_gap=_gap(counted.active, active),
        weight_format=precision.named,
        weight_bytes=weight_bytes(model, precision),
        kv_format=precision.kv.name,
        kv_bytes_per_token=kv_bytes_per_token(model, precision),
        kv_bytes_constant=kv_bytes_constant(model, precision),
        source=published.source if published else None,
        assumptions=(*ASSUMPTIONS, f"{precision.kept}, the rest in the format named"),
    )


def _kind(model: ModelShape, index: int) -> str:
    layer = model.layers[index]
    f = layer.feed_forward
    ffn = f"{f.experts.active} of {f.experts.total} experts" if f.experts else "dense" if f.inner else "none"
    return f"{attention_kind(layer.attention)} + {ffn}"


def attention_kind(attention: Attention) -> str:
    """With the tokens of a window or of a compressed entry, and whether it keeps keys of an index."""
    tokens = attention.compress or attention.window
    index = " and index" if attention.sparse and attention.sparse.index_heads else ""
    return attention.kind + (f"({tokens})" if tokens else "") + index


def _gap(counted: int, published: float | None) -> float | None:
    return counted / published - 1 if published else None
