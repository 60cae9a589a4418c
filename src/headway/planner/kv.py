"""How much cache a token, a context and a batch take, and how many chips that is."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.cache import kv_bytes, kv_bytes_constant, kv_bytes_per_layer, kv_bytes_per_token
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import weight_bytes
from headway.arithmetic.shape import ModelShape
from headway.catalog import Chip
from headway.planner.model import attention_kind
from headway.roofline.capacity import chips_for_bytes, length_where_kv_reaches

FORMULAS = (
    "KV of a token = sum over layers whose cache grows of values x bytes; grouped: 2 x KV heads x head size",
    "KV of a context = sum over layers of min(context, window) x values x bytes, and constant states",
    "chips = bytes / the chip's whole memory",
)
ASSUMPTIONS = (
    "every sequence is as long as the context; no prefix is shared",
    "chips are counted by whole memory, with nothing kept for activations or the runtime",
    "whole chips are the next integer; tensor-parallel groups may need more",
)


@dataclass(frozen=True, slots=True)
class LayerCache:
    """What each of `layers` alike keeps of one context."""

    kind: str
    layers: int
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class KvReport:
    model: str
    kv_format: str
    weight_format: str
    context_tokens: int
    batch: int
    kv_bytes_per_token: float
    kv_bytes_constant: int
    kv_bytes_per_context: int
    kv_bytes: int
    """Of the batch."""
    by_layer: tuple[LayerCache, ...]
    """Those that keep something."""
    weight_bytes: int
    context_where_kv_equals_weights_tokens: int | None
    chip: str
    hbm_bytes: float
    chips_for_kv: float
    chips_for_kv_and_weights: float
    whole_chips_for_kv: int
    whole_chips_for_kv_and_weights: int
    formulas: tuple[str, ...] = FORMULAS
    assumptions: tuple[str, ...] = ASSUMPTIONS


def kv_report(name: str, model: ModelShape, precision: Precision, chip: Chip, context: int, batch: int) -> KvReport:
    one = kv_bytes(model, context, precision)
    weights = weight_bytes(model, precision)
    for_kv, for_both = chips_for_bytes(batch * one, chip), chips_for_bytes(batch * one + weights, chip)
    return KvReport(
        model=name,
        kv_format=precision.kv.name,
        weight_format=precision.named,
        context_tokens=context,
        batch=batch,
        kv_bytes_per_token=kv_bytes_per_token(model, precision),
        kv_bytes_constant=kv_bytes_constant(model, precision),
        kv_bytes_per_context=one,
        kv_bytes=batch * one,
        by_layer=_by_layer(model, context, precision),
        weight_bytes=weights,
        context_where_kv_equals_weights_tokens=length_where_kv_reaches(model, weights, precision),
        chip=chip.name,
        hbm_bytes=chip.hbm_bytes,
        chips_for_kv=for_kv,
        chips_for_kv_and_weights=for_both,
        whole_chips_for_kv=math.ceil(for_kv),
        whole_chips_for_kv_and_weights=math.ceil(for_both),
    )


def _by_layer(model: ModelShape, context: int, precision: Precision) -> tuple[LayerCache, ...]:
    sizes = kv_bytes_per_layer(model, np.array(context, np.int64), precision).tolist()
    kinds = (attention_kind(layer.attention) for layer in model.layers)
    found = Counter(zip(kinds, sizes, strict=True))
    return tuple(LayerCache(kind, layers, size) for (kind, size), layers in found.items() if size)
