"""Shapes of measured models: the catalog's, and two of 2022 and 2023 that only measurements are kept of."""

from __future__ import annotations

from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.layers import Attention, FeedForward, Layer, Rope
from headway.arithmetic.shape import ModelShape
from headway.catalog import Catalog

_LLAMA_2 = Layer(Attention("full", 64, 8, 128, Rope(1e4)), FeedForward(28672))
_BLOOM = Layer(
    Attention("full", 112, 112, 128, Rope(1e4, partial=0.0), qkv_bias=True, output_bias=True),
    FeedForward(57344, "gelu_tanh", bias=True, gated=False),
)
OLDER = {
    "llama-2-70b": ModelShape("llama", 8192, 32000, (_LLAMA_2,) * 80, False, 1e-5, 4096),
    "bloom-176b": ModelShape("bloom", 14336, 250880, (_BLOOM,) * 70, True, 1e-5, 2048),
}
"""meta-llama/Llama-2-70b-hf and bigscience/bloom, config.json. BLOOM's ALiBi costs nothing that is counted here."""
DRAFTS = ("deepseek-v3", "deepseek-v4-pro")
"""Models whose published runs are known to draft with their own further layers; which runs did is seldom stated."""


def measured_shape(catalog: Catalog, name: str) -> ModelShape:
    """Raises CatalogError or ShapeError."""
    return OLDER[name] if name in OLDER else shape_from_config(catalog.config(name))
