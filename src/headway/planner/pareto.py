"""The frontier of interactivity (tokens/s a user) and throughput (tokens/s a chip) over cuts, batches and formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.attends import spans
from headway.arithmetic.experts import FloatArray
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip, weight_bytes_per_chip
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.spans import Ints
from headway.arithmetic.step_shape import decode
from headway.arithmetic.work import step_work
from headway.catalog import System
from headway.roofline import Calibration, calibrated_cost, floor_cost

ASSUMPTIONS = (
    "decode only: prompts are computed on other chips, and every sequence stays at the context's length",
    "each configuration is one replica; a system runs as many as it has room for",
    "90% of each chip's memory is for weights and cache; configurations that do not fit are left out",
    "a point is on the frontier if no other is at least as good in both and better in one",
)
USABLE = 0.9
MAX_CHIPS = 72
_CHIPS = (1, 2, 4, 8, 16, 32, 64, 72)
_STAGES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to decode. `interactivity` is 1 / TPOT."""

    system: str
    chips: int
    parallelism: Parallelism
    weight_format: str
    kv_format: str
    batch: int
    step_s: float
    interactivity_tokens_per_s: float
    throughput_tokens_per_s_per_chip: float
    usd_per_mtok: float | None
    bound: str


@dataclass(frozen=True, slots=True)
class ParetoReport:
    model: str
    context_tokens: int
    cost_model: str
    considered: int
    frontier: tuple[Configuration, ...]
    """From the most interactive to the most productive."""
    slo_tokens_per_s: float | None
    best_at_slo: Configuration | None
    """Highest throughput a chip of all that reach the SLO; None: none does."""
    assumptions: tuple[str, ...] = ASSUMPTIONS


@dataclass(frozen=True, slots=True)
class _Sweep:
    system: System
    cut: Parallelism
    precision: Precision
    batches: Ints
    step_s: FloatArray
    bounds: tuple[str, ...]

    @property
    def throughput(self) -> FloatArray:
        return self.batches / self.step_s / self.cut.chips


def cuts(model: ModelShape, system: System, max_chips: int = MAX_CHIPS) -> Iterator[Parallelism]:
    """Every cut worth trying that fits the model's heads and experts, within one scale-up domain. Experts are dealt out
    over all chips of a stage, or each is cut by all of them.
    """
    heads = {layer.attention.num_heads for layer, _ in model.layer_counts if layer.attention.num_heads}
    experts = {layer.feed_forward.experts.total for layer, _ in model.layer_counts if layer.feed_forward.experts}
    room = min(max_chips, system.scaleup_chips if system.scaleup else 1)
    for chips in (n for n in _CHIPS if n <= room):
        for stages in (s for s in _STAGES if chips % s == 0 and s <= len(model.layers)):
            stage = chips // stages
            dealt = [stage] if experts and stage > 1 and all(e % stage == 0 for e in experts) else []
            for tensor in (t for t in range(1, stage + 1) if stage % t == 0 and all(h % t == 0 for h in heads)):
                for expert in (1, *dealt):
                    yield Parallelism(tensor, stages, expert, stage // tensor)


def batch_ladder(most: int, steps: int = 64) -> Ints:
    """At most `steps` batch sizes from 1 to `most`, evenly spaced in their logarithm."""
    return np.unique(np.rint(np.geomspace(1, most, steps)).astype(np.int64))


def pareto_report(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    context: int,
    fitted: Mapping[str, Calibration] | None = None,
    slo_tokens_per_s: float | None = None,
    max_chips: int = MAX_CHIPS,
    max_batch: int = 8192,
) -> ParetoReport:
    """`fitted`: calibrations by chip; without one for every system's chip, all are compared by their floors."""
    fitted = fitted or {}
    use = {s.chip.name: fitted[s.chip.name] for s in systems} if all(s.chip.name in fitted for s in systems) else {}
    sweeps = [
        sweep
        for system in systems
        for precision in precisions
        for cut in cuts(model, system, max_chips)
        if (sweep := _sweep(model, system, precision, cut, context, max_batch, use.get(system.chip.name)))
    ]
    order = _frontier(sweeps)
    best = _best_at(sweeps, slo_tokens_per_s) if slo_tokens_per_s else None
    return ParetoReport(
        name,
        context,
        "calibrated" if use else "floor",
        sum(len(s.batches) for s in sweeps),
        tuple(_configuration(sweeps[i], j) for i, j in order),
        slo_tokens_per_s,
        best,
    )


def _sweep(
    model: ModelShape,
    system: System,
    precision: Precision,
    cut: Parallelism,
    context: int,
    max_batch: int,
    fitted: Calibration | None,
) -> _Sweep | None:
    """None if not even one sequence a group and stage fits."""
    room = system.chip.hbm_bytes * USABLE - weight_bytes_per_chip(model, precision, cut)
    group = kv_bytes_per_chip(model, context, 1, precision, cut)
    most = min(max_batch, int(room / group) * cut.data) if room > 0 else 0
    together = cut.data * cut.pipeline
    if most < together:
        return None
    micro = np.unique(batch_ladder(most // together)) * cut.data
    shape = decode(spans(model), micro, context)
    work = step_work(model, shape, precision, cut, domain=system.scaleup_chips)
    cost = calibrated_cost(work, shape, system, fitted.coefficients, cut) if fitted else floor_cost(work, system)
    return _Sweep(system, cut, precision, micro * cut.pipeline, cost.step_s, cost.bound)


def _frontier(sweeps: Sequence[_Sweep]) -> list[tuple[int, int]]:
    """(sweep, batch) of every non-dominated point, fastest first."""
    if not sweeps:
        return []
    speed = np.concatenate([1 / s.step_s for s in sweeps])
    yields = np.concatenate([s.throughput for s in sweeps])
    owner = np.concatenate([np.full(len(s.batches), i) for i, s in enumerate(sweeps)])
    place = np.concatenate([np.arange(len(s.batches)) for s in sweeps])
    order = np.lexsort((-yields, -speed))
    best = np.maximum.accumulate(yields[order])
    keep = np.concatenate([[True], yields[order][1:] > best[:-1]])
    return [(int(owner[i]), int(place[i])) for i in order[keep]]


def _best_at(sweeps: Sequence[_Sweep], slo_tokens_per_s: float) -> Configuration | None:
    best: tuple[float, int, int] | None = None
    for i, s in enumerate(sweeps):
        reached = np.where(1 / s.step_s >= slo_tokens_per_s, s.throughput, -1.0)
        j = int(np.argmax(reached))
        if reached[j] > 0 and (best is None or reached[j] > best[0]):
            best = (float(reached[j]), i, j)
    return _configuration(sweeps[best[1]], best[2]) if best else None


def _configuration(s: _Sweep, j: int) -> Configuration:
    step_s, throughput = float(s.step_s[j]), float(s.throughput[j])
    hourly = s.system.chip.rent_usd_per_hour
    return Configuration(
        s.system.name,
        s.cut.chips,
        s.cut,
        s.precision.weights.name,
        s.precision.kv.name,
        int(s.batches[j]),
        step_s,
        1 / step_s,
        throughput,
        None if hourly is None else hourly / 3600 / throughput * 1e6,
        s.bounds[j],
    )
