"""What a measured configuration is in the arithmetic's words: number formats, a cut that holds the model, room."""

from __future__ import annotations

import math

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip, weight_bytes_per_chip
from headway.arithmetic.shape import ModelShape
from headway.catalog import System
from headway.planner.truth.launched import narrow_cache
from headway.planner.truth.measurement import Layout, Measurement

FOUR_BITS = ("fp4", "int4")
USABLE = 0.9
"""Of a chip's memory, for weights and cache: what engines are told to take by default."""
LEAST = 0.03
"""Of a chip's memory, for the cache: what an operator finds for it beside weights that leave no more."""
WEIGHTS_FIT = 0.95
"""Weights that take more are held by more chips."""


def formats(m: Measurement, model: ModelShape, system: System) -> Precision:
    """Checkpoints of mixture models in four bits are taken to keep all but the experts in bf16."""
    experts = any(layer.feed_forward.experts for layer, _ in model.layer_counts)
    kv = "fp8" if narrow_cache(m, system) else "bf16"
    if m.model.startswith("gpt-oss"):
        return precision("bf16", kv, experts="mxfp4")
    stored = {"fp4": "nvfp4"}.get(m.weights, m.weights)
    return precision("bf16", kv, experts=stored) if experts and m.weights in FOUR_BITS else precision(stored, kv)


def cut(model: ModelShape, layout: Layout, p: Precision, system: System) -> Parallelism:
    """The layout as a cut that this model allows, on at least as many chips as hold its weights: a layout that can not
    (one chip for 235 GB) is a slip of its source, and was run on more.
    """
    chips, tensor = layout.tensor * layout.data, layout.tensor
    while True:
        heads = {layer.attention.num_heads for layer, _ in model.layer_counts if layer.attention.num_heads}
        wide = tensor > 8 or any(count % tensor for count in heads)
        found = _cut(model, 1 if wide else tensor, chips, layout, wide)
        if weight_bytes_per_chip(model, p, found) < WEIGHTS_FIT * system.chip.hbm_bytes or chips >= 64:
            return found
        tensor, chips = (tensor * 2, chips * 2) if layout.data == 1 else (tensor, chips * 2)


def _cut(model: ModelShape, tensor: int, chips: int, layout: Layout, wide: bool) -> Parallelism:
    """Tensor parallelism beyond a board's eight chips is really experts dealt out, with attention in groups."""
    totals = {layer.feed_forward.experts.total for layer, _ in model.layer_counts if layer.feed_forward.experts}
    dealt = math.gcd(chips, *totals) if totals and (layout.expert > 1 or wide) else 1
    return Parallelism(tensor, layout.pipeline, dealt, chips // tensor)


def room(model: ModelShape, p: Precision, system: System, c: Parallelism, lengths: FloatArray) -> FloatArray:
    """[N] sequences of these lengths whose cache fits beside the weights, at least one."""
    hbm_bytes = system.chip.hbm_bytes
    free = max(USABLE * hbm_bytes - weight_bytes_per_chip(model, p, c), LEAST * hbm_bytes)
    each = np.array([kv_bytes_per_chip(model, max(1, int(length)), 1, p, c) for length in lengths])
    return np.asarray(np.maximum(1.0, np.floor(free / np.maximum(each, 1.0)) * c.data))
