"""Measurements as what the cost model asks for: three steps of each configuration, and the tags it is pooled by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import Parallelism
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.step_shape import StepShape, decode, prefill
from headway.arithmetic.work import step_work
from headway.catalog import Catalog, System
from headway.planner.truth.configuration import cut, formats, room
from headway.planner.truth.launched import narrow_cache, reads_all_experts, steps_unseen, waits_for_host
from headway.planner.truth.measurement import Measurement
from headway.planner.truth.models import DRAFTS, measured_shape
from headway.roofline.serving import Served, joined
from headway.roofline.terms import Terms, all_experts_read, step_terms

UNSTATED_REPLICAS = 4
"""That decode on at most UNSTATED_CHIPS each, where prompts are computed apart: the median of those that state it."""
UNSTATED_CHIPS = 8
MEAN_PLACE = 0.5
"""Of its output, how far a request has come on the average."""


def served(found: Sequence[Measurement], catalog: Catalog) -> Served:
    """In the order of the measurements. Raises CatalogError or ShapeError for what can not be priced."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, m in enumerate(found):
        named = (m.model, m.system, m.engine, m.weights, m.prefill, m.decode, m.batch, m.apart, m.median_gap)
        groups[(*named, narrow_cache(m, catalog.system(m.system)), reads_all_experts(m))].append(i)
    parts = [_group([found[i] for i in rows], catalog) for rows in groups.values()]
    order = np.argsort([i for rows in groups.values() for i in rows])
    return joined(parts).take(order)


def _group(found: Sequence[Measurement], catalog: Catalog) -> Served:
    """Measurements that differ in lengths, concurrency and metric only."""
    first = found[0]
    model, system = measured_shape(catalog, first.model), catalog.system(first.system)
    p = formats(first, model, system)
    prompts_cut, decode_cut = cut(model, first.prefill, p, system), cut(model, first.decode, p, system)
    prompt, output, requests = (
        np.array([getattr(m, name) for m in found], np.int64)
        for name in ("prompt_tokens", "output_tokens", "concurrency")
    )
    place = prompt + np.maximum(1, (MEAN_PLACE * output).astype(np.int64))
    fits = room(model, p, system, decode_cut, place.astype(np.float64))
    sides = np.array([_replicas(m, decode_cut) for m in found], np.float64)
    requests = np.maximum(1, np.round(requests / sides[:, 1])).astype(np.int64)
    in_flight = np.minimum(requests, fits).astype(np.int64)
    known, alone, groups = spans(model), first.batch, prompts_cut.data
    steps = (
        (decode(known, in_flight, place), decode_cut),
        (prefill(known, prompt, batch=requests if alone else 1), prompts_cut),
        (prefill(known, prompt, batch=requests if alone else groups), prompts_cut),
    )
    count = len(found)
    priced = (_terms(model, shape, p, c, system) for shape, c in steps)
    step, prompt_step, prompts_step = map(all_experts_read, priced) if reads_all_experts(first) else priced
    return Served(
        decode=step,
        prompt=prompt_step,
        prompts=prompts_step,
        prompts_each=np.full(count, 1.0) if alone else groups * sides[:, 0] / sides[:, 1],
        in_flight=in_flight.astype(np.float64),
        waiting=np.zeros(count) if first.apart else (requests - in_flight).astype(np.float64),
        prompt_tokens=prompt.astype(np.float64),
        output_tokens=output.astype(np.float64),
        first=np.array([m.metric == "ttft" for m in found]),
        alone=np.full(count, alone),
        unmixed=np.full(count, first.apart or alone or first.median_gap),
        unseen_steps=np.array([steps_unseen(m, system) for m in found]),
        waits_for_host=np.array([waits_for_host(m) for m in found]),
    )


def _replicas(m: Measurement, cut: Parallelism) -> tuple[float, float]:
    """(for prompts, for decoding)"""
    if not m.apart:
        return 1.0, 1.0
    decoding = m.decode_replicas or (UNSTATED_REPLICAS if cut.chips <= UNSTATED_CHIPS else 1)
    return float(m.prompt_replicas or 1), float(decoding)


def _terms(model: ModelShape, shape: StepShape, p: Precision, c: Parallelism, system: System) -> Terms:
    return step_terms(step_work(model, shape, p, c, domain=system.scaleup_chips), shape, system, c)


def tags(m: Measurement, catalog: Catalog) -> dict[str, str]:
    mode = "apart" if m.apart else "alone" if m.batch else "mixed"
    chip = catalog.system(m.system).chip.name
    found = {
        "engine": m.engine,
        "chip": chip,
        "engine and chip": f"{m.engine}, {chip}",
        "protocol": protocol(m),
        "protocol and engine": f"{protocol(m)}, {m.engine}",
        "client": client(m),
        "mode": mode,
        "engine and mode": f"{m.engine}, {mode}",
        "release": m.release.removesuffix(" disagg"),
    }
    if m.engine == "other":
        found["launching"] = "one by one"
    if m.model in DRAFTS:
        found["drafts"] = "unstated"
        found["speculation"] = f"{m.release}, {mode}"
    return found


def protocol(m: Measurement) -> str:
    """Who measured, over all their sweeps."""
    return m.source.split("(")[0].split(" wip")[0].strip()


def client(m: Measurement) -> str:
    """How requests arrived, and from when to when TTFT is taken: an experiment has a script for each model."""
    return f"{protocol(m)}, {m.model}" if "experimental" in m.source else protocol(m)
