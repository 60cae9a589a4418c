"""What a layer's attention does with its cache: which entries, how many FLOPs a pair, how many values an entry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headway.arithmetic.layers import Attention
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.spans import Span


@dataclass(frozen=True, slots=True)
class Attend:
    """`flops` for each (query token, entry) pair over all heads; `values` cached for each entry.

    `expanded_flops` (a pair) and `expand_flops` (an entry) are those of the other way to compute latent attention:
    expand the entries to keys and values first. 0: there is no other way.
    """

    name: str
    span: Span
    flops: int
    values: int
    kv_heads: int = 1
    expanded_flops: int = 0
    expand_flops: int = 0


@lru_cache(maxsize=4096)
def attends(a: Attention) -> tuple[Attend, ...]:
    """Empty where there is no growing cache."""
    if a.kind in ("linear", "none"):
        return ()
    parts: list[Attend] = []
    topk = a.sparse.topk if a.sparse else 0
    values = a.kv_values_per_token
    if a.latent:
        m = a.latent
        parts.append(
            Attend(
                "latent",
                Span(topk=topk),
                flops=2 * a.num_heads * (2 * m.rank + m.rope_dim),
                values=values,
                expanded_flops=2 * a.num_heads * (m.nope_dim + m.rope_dim + m.value_dim),
                expand_flops=2 * a.num_heads * m.rank * (m.nope_dim + m.value_dim),
            )
        )
    else:
        flops = 2 * a.num_heads * (a.head_dim + a.value_dim)
        near = Span(a.window, a.kind == "chunked", topk=0 if a.compress else topk)
        parts.append(Attend(a.kind, near, flops, values, a.num_kv_heads))
        if a.compress:
            parts[0] = Attend("window", near, flops, values, a.num_kv_heads)
            parts.append(Attend("compressed", Span(every=a.compress, topk=topk), flops, values))
    if a.sparse and a.sparse.index_heads:
        s = a.sparse
        index_flops = 2 * s.index_heads * s.index_dim
        parts.append(Attend("index", Span(every=a.compress or 1), index_flops, s.index_dim))
    return tuple(parts)


def spans(model: ModelShape) -> tuple[Span, ...]:
    """The distinct spans of a model, in order of first appearance: what a StepShape has to count."""
    return tuple(dict.fromkeys(part.span for layer, _ in model.layer_counts for part in attends(layer.attention)))
