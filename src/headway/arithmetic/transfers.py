"""What chips send to each other in a step: all-reduce, all-to-all, point-to-point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headway.arithmetic.attends import attends
from headway.arithmetic.experts import FloatArray, destinations
from headway.arithmetic.formats import Precision
from headway.arithmetic.layers import Experts, Layer
from headway.arithmetic.parallelism import Parallelism, kv_shards
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.step_shape import StepShape

TransferKind = Literal["all_reduce", "all_to_all", "point_to_point"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """`count` times in a step. Bytes that one chip sends (and as many that it gets), one direction, each time.

    Rounds wait for one another, so each costs a link's latency; messages are what one chip sends.
    """

    name: str
    kind: TransferKind
    group: int
    count: int
    inside_bytes: FloatArray
    """Over the scale-up link."""
    outside_bytes: FloatArray
    inside_rounds: int
    outside_rounds: int
    messages: int


def all_reduce(name: str, group: int, payload_bytes: FloatArray, domain: int, count: int = 1) -> Transfer:
    """A reduce-scatter and an all-gather, 2 (n-1)/n of the payload, peer to peer in 2 rounds; over several domains,
    each chip reduces its slice with its counterparts outside in between.
    """
    inner = min(group, domain)
    outer = -(-group // inner)
    return Transfer(
        name,
        "all_reduce",
        group,
        count,
        2 * (inner - 1) / inner * payload_bytes,
        2 * (outer - 1) / outer * payload_bytes / inner,
        2 if inner > 1 else 0,
        2 if outer > 1 else 0,
        2 * (inner - 1) + 2 * (outer - 1),
    )


def all_to_all(name: str, group: int, sent_bytes: FloatArray, domain: int, count: int = 1) -> Transfer:
    """`sent_bytes` leave each chip, spread evenly over the other chips of the group."""
    inner = min(group, domain)
    near = (inner - 1) / (group - 1)
    return Transfer(
        name,
        "all_to_all",
        group,
        count,
        sent_bytes * near,
        sent_bytes * (1 - near),
        1 if inner > 1 else 0,
        1 if group > inner else 0,
        group - 1,
    )


def point_to_point(name: str, payload_bytes: FloatArray, inside: bool, count: int = 1) -> Transfer:
    none = payload_bytes * 0.0
    near, far = (payload_bytes, none) if inside else (none, payload_bytes)
    return Transfer(name, "point_to_point", 2, count, near, far, int(inside), int(not inside), 1)


def step_transfers(
    model: ModelShape, shape: StepShape, p: Precision, cut: Parallelism, imbalance: float, domain: int
) -> tuple[Transfer, ...]:
    if cut.chips == 1:
        return ()
    tokens = shape.tokens.astype(np.float64)
    local = shape.local_tokens(cut.data, cut.context)
    hidden_bytes = local * p.small.size_bytes(model.hidden)
    found: list[Transfer] = []
    for layer, layers in model.layer_counts:
        has_attention = layer.attention.kind != "none"
        if cut.tensor > 1 and has_attention:
            found.append(all_reduce("after attention", cut.tensor, hidden_bytes, domain, layers))
        if cut.context > 1 and has_attention:
            found.append(_context_exchange(layer, layers, shape, p, cut, domain))
        found.extend(_feed_forward(layer, layers, model, tokens, local, p, cut, imbalance, domain))
    if cut.pipeline > 1:
        inside = cut.chips <= domain
        found.append(point_to_point("to next stage", hidden_bytes / cut.tensor, inside, cut.pipeline - 1))
    return tuple(found)


def _feed_forward(
    layer: Layer,
    layers: int,
    model: ModelShape,
    tokens: FloatArray,
    local: FloatArray,
    p: Precision,
    cut: Parallelism,
    imbalance: float,
    domain: int,
) -> Iterator[Transfer]:
    f = layer.feed_forward
    if f.inner and cut.tensor > 1 and not _reduced_with_experts(f.experts, cut):
        payload = local * p.small.size_bytes(model.hidden)
        yield all_reduce("after feed-forward", cut.tensor, payload, domain, layers)
    e = f.experts
    if e is None or cut.stage_chips == 1:
        return
    width = e.latent or model.hidden
    if cut.expert == 1:
        payload = tokens * p.small.size_bytes(width)
        yield all_reduce("after experts", cut.stage_chips, payload, domain, layers)
        return
    copies = local / cut.tensor * destinations(cut.expert, e.active, e.total) * imbalance
    slices = cut.stage_chips // cut.expert  # Each chip that holds a slice of the expert gets the token whole.
    group = cut.stage_chips
    out, back = p.activations.size_bytes(width), p.small.size_bytes(width)
    yield all_to_all("to experts", group, copies * slices * out, domain, layers)
    yield all_to_all("from experts", group, copies * slices * back, domain, layers)


def _reduced_with_experts(experts: Experts | None, cut: Parallelism) -> bool:
    """Shared and routed experts are added up before one all-reduce, where the same chips hold slices of both."""
    return experts is not None and not experts.latent and cut.expert == 1 and cut.stage_chips == cut.tensor


def _context_exchange(
    layer: Layer, layers: int, shape: StepShape, p: Precision, cut: Parallelism, domain: int
) -> Transfer:
    """Queries go to where the cache is and partial outputs come back (decode), or KV goes round (long prompts):
    whichever is less.
    """
    a = layer.attention
    others = (cut.context - 1) / cut.context
    share = shape.busiest_share(cut.data)
    tokens = shape.tokens * share
    heads = a.num_heads / cut.tensor
    sent = tokens * heads * (a.head_dim + a.value_dim) * p.small.bits_per_value / 8
    if parts := attends(a):
        reads = {part: shape.reads[shape.spans.index(part.span)] for part in parts}
        values = sum(reads[part] * part.values / kv_shards(cut.tensor, part.kv_heads) for part in parts)
        sent = np.minimum(sent, values * share * p.kv.bits_per_value / 8)
    return all_to_all("context exchange", cut.context, others * sent, domain, layers)
