"""Every way to decode that fits: cuts of a model over a system's chips, with a ladder of batches for each."""

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
class Sweep:
    """One cut of one system in one format; arrays [N], a batch each."""

    system: System
    cut: Parallelism
    precision: Precision
    batches: Ints
    step_s: FloatArray
    bounds: tuple[str, ...]

    @property
    def throughput(self) -> FloatArray:
        """Tokens/s a chip."""
        return self.batches / self.step_s / self.cut.chips

    @property
    def interactivity(self) -> FloatArray:
        """Tokens/s a user."""
        return 1 / self.step_s

    def configuration(self, j: int) -> Configuration:
        step_s, throughput = float(self.step_s[j]), float(self.throughput[j])
        hourly = self.system.chip.rent_usd_per_hour
        return Configuration(
            self.system.name,
            self.cut.chips,
            self.cut,
            self.precision.weights.name,
            self.precision.kv.name,
            int(self.batches[j]),
            step_s,
            1 / step_s,
            throughput,
            None if hourly is None else hourly / 3600 / throughput * 1e6,
            self.bounds[j],
        )

    def best_at(self, slo_tokens_per_s: float) -> int | None:
        """The batch of highest throughput at which every user gets that much; None: there is none."""
        reached = np.where(self.interactivity >= slo_tokens_per_s, self.throughput, -1.0)
        best = int(np.argmax(reached))
        return best if reached[best] > 0 else None


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


def common_fits(systems: Sequence[System], fitted: Mapping[str, Calibration]) -> dict[str, Calibration]:
    """Calibrations by chip if every system's chip has one; else none, so that all are compared by the same measure."""
    names = {system.chip.name for system in systems}
    return {name: fitted[name] for name in names} if names <= set(fitted) else {}


def sweeps(
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    context: int,
    fits: Mapping[str, Calibration],
    max_chips: int = MAX_CHIPS,
    max_batch: int = 8192,
) -> list[Sweep]:
    """Those in which at least one sequence a group and stage fits."""
    found = (
        _sweep(model, system, precision, cut, context, max_batch, fits.get(system.chip.name))
        for system in systems
        for precision in precisions
        for cut in cuts(model, system, max_chips)
    )
    return [sweep for sweep in found if sweep is not None]


def _sweep(
    model: ModelShape,
    system: System,
    precision: Precision,
    cut: Parallelism,
    context: int,
    max_batch: int,
    fitted: Calibration | None,
) -> Sweep | None:
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
    return Sweep(system, cut, precision, micro * cut.pipeline, cost.step_s, cost.bound)
