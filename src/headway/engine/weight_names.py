"""Which tensors of a Hugging Face checkpoint make up each weight of the generic decoder."""

from __future__ import annotations

from dataclasses import dataclass

from headway.arithmetic.shape import ModelShape

MATRICES = frozenset({"qkv", "output", "gate_up", "down", "head"})
"""Fields that are only ever multiplied with."""


@dataclass(frozen=True, slots=True)
class Part:
    """One weight: its sources, stacked along the first dimension."""

    sources: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        rows = sum(shape[0] for _, shape in self.sources)
        return (rows, *self.sources[0][1][1:])


def model_parts(shape: ModelShape) -> dict[str, Part]:
    """Fields of `ModelWeights` outside the layers."""
    matrix = (shape.vocab, shape.hidden)
    parts = {
        "embedding": Part((("model.embed_tokens.weight", matrix),)),
        "norm": Part((("model.norm.weight", (shape.hidden,)),)),
    }
    if not shape.tied_embeddings:
        parts["head"] = Part((("lm_head.weight", matrix),))
    return parts


def layer_parts(shape: ModelShape, index: int) -> dict[str, Part]:
    """Fields of `LayerWeights` for one layer, those that the layer has."""
    layer, hidden = shape.layers[index], shape.hidden
    a, inner = layer.attention, layer.feed_forward.inner
    q, kv = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
    prefix = f"model.layers.{index}."

    def part(*sources: tuple[str, tuple[int, ...]]) -> Part:
        return Part(tuple((prefix + name, dims) for name, dims in sources))

    heads = (("q_proj", q), ("k_proj", kv), ("v_proj", kv))
    parts = {
        "attention_norm": part(("input_layernorm.weight", (hidden,))),
        "qkv": part(*((f"self_attn.{name}.weight", (rows, hidden)) for name, rows in heads)),
        "output": part(("self_attn.o_proj.weight", (hidden, q))),
        "feed_forward_norm": part(("post_attention_layernorm.weight", (hidden,))),
        "gate_up": part(*((f"mlp.{name}.weight", (inner, hidden)) for name in ("gate_proj", "up_proj"))),
        "down": part(("mlp.down_proj.weight", (hidden, inner))),
    }
    if a.qkv_bias:
        parts["qkv_bias"] = part(*((f"self_attn.{name}.bias", (rows,)) for name, rows in heads))
    if a.output_bias:
        parts["output_bias"] = part(("self_attn.o_proj.bias", (hidden,)))
    if a.qk_norm:
        parts["q_norm"] = part(("self_attn.q_norm.weight", (a.head_dim,)))
        parts["k_norm"] = part(("self_attn.k_norm.weight", (a.head_dim,)))
    if layer.feed_forward.bias:
        parts["gate_up_bias"] = part(*((f"mlp.{name}.bias", (inner,)) for name in ("gate_proj", "up_proj")))
        parts["down_bias"] = part(("mlp.down_proj.bias", (hidden,)))
    return parts
