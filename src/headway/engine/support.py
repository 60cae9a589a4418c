"""Which shapes the generic decoder runs. A shape can describe more, for pricing."""

from __future__ import annotations

from headway.arithmetic.shape import Attention, FeedForward, Layer, ModelShape
from headway.engine.errors import ModelError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Those whose logits are tested against `transformers`."""
_KINDS = ("full", "window")
_ROPES = ("default", "linear", "llama3")
_ACTIVATIONS = ("silu", "gelu_tanh")


def check_supported(shape: ModelShape) -> None:
    """Raises ModelError, naming what the decoder does not run."""
    if shape.family not in FAMILIES:
        raise ModelError(f"model_type {shape.family!r} can be priced but not run; it runs {', '.join(FAMILIES)}")
    for index, layer in enumerate(shape.layers):
        if reason := _unsupported(layer):
            raise ModelError(f"layer {index} of the {shape.family} model has {reason}, which cannot be run yet")


def _unsupported(layer: Layer) -> str | None:
    a, f = layer.attention, layer.feed_forward
    if a.kind not in _KINDS:
        return f"{a.kind} attention"
    if a.rope.scaling not in _ROPES or a.rope.partial != 1.0:
        return f"{a.rope.scaling} rope over {a.rope.partial:.0%} of a head"
    if a.head_dim % 2:
        return f"an odd head_dim of {a.head_dim}"
    # Whatever else a shape may say differs from what it would be with only the known fields.
    if a != _known_attention(a):
        return "attention with parts beyond heads, window, biases and query/key norm"
    if f.activation not in _ACTIVATIONS or f != FeedForward(f.inner, f.activation, f.bias) or f.inner < 1:
        return "a feed-forward that is not dense and gated with silu or gelu"
    return None if layer == Layer(a, f) else "extra norms or residual streams"


def _known_attention(a: Attention) -> Attention:
    return Attention(
        kind=a.kind,
        num_heads=a.num_heads,
        num_kv_heads=a.num_kv_heads,
        head_dim=a.head_dim,
        rope=a.rope,
        window=a.window,
        qkv_bias=a.qkv_bias,
        output_bias=a.output_bias,
        qk_norm=a.qk_norm,
    )
