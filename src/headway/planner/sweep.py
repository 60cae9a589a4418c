"""Every way to serve that fits: cuts of a model over a system's chips, with a ladder of batches for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from headway.arithmetic.attends import attends
from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.experts import FloatArray
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip, weight_bytes_per_chip
from headway.arithmetic.parameters import parameters
from headway.arithmetic.shape import ModelShape
from headway.arithmetic.spans import Ints
from headway.catalog import System
from headway.planner.deployment import Deployment
from headway.planner.fitting import USABLE
from headway.planner.lengths import Lengths, asked_tokens
from headway.planner.split import Flags, Pools, best_pools, split
from headway.planner.under_load import Load, Steps, longest, mixed
from headway.roofline import Calibration, StepCost

MAX_CHIPS = 72
MAX_BATCH = 8192
CAPACITY = "memory_capacity"
_CHIPS = (1, 2, 4, 8, 16, 32, 64, 72)
_STAGES = (1, 2, 4, 8)
Kind = Literal["decode", "mixed", "split"]
"""Decode steps alone; prompts in the steps of the same chips; prompts on chips of their own."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to serve. `interactivity` is 1 / TPOT, throughput that of output tokens."""

    system: str
    chip: str
    kind: Kind
    chips: int
    """All of it."""
    replicas: int
    parallelism: Parallelism
    """Of each replica that decodes."""
    prefill_replicas: int
    prefill_parallelism: Parallelism | None
    weight_format: str
    kv_format: str
    batch: int
    """Requests in flight in each replica that decodes."""
    tpot_s: float
    ttft_s: float | None
    interactivity_tokens_per_s: float
    throughput_tokens_per_s_per_chip: float
    usd_per_mtok: float | None
    """Of output, prompts paid for."""
    bound: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """One cut of one system in one format; arrays [N], a batch each."""

    where: Deployment
    kind: Kind
    batches: Ints
    most: int
    """Sequences that fit."""
    load: Load
    pools: Pools | None = None

    @property
    def chips(self) -> Ints:
        chips = self.where.cut.chips
        return np.full(len(self.batches), chips) if self.pools is None else self.pools.chips(chips)

    @property
    def throughput(self) -> FloatArray:
        """Tokens/s a chip."""
        made = 1 if self.pools is None else self.pools.decode_replicas
        return np.asarray(self.load.tokens_per_s * made / self.chips)

    @property
    def interactivity(self) -> FloatArray:
        """Tokens/s a user."""
        return 1 / self.load.tpot_s

    def configuration(self, j: int) -> Configuration:
        throughput = float(self.throughput[j])
        system, hourly = self.where.system, self.where.system.chip.rent_usd_per_hour
        tpot_s, ttft_s, pools = float(self.load.tpot_s[j]), float(self.load.ttft_s[j]), self.pools
        return Configuration(
            system=system.name,
            chip=system.chip.name,
            kind=self.kind,
            chips=int(self.chips[j]),
            replicas=1 if pools is None else int(pools.decode_replicas[j]),
            parallelism=self.where.cut,
            prefill_replicas=0 if pools is None else int(pools.prefill_replicas[j]),
            prefill_parallelism=None if pools is None else pools.cut(j),
            weight_format=self.where.precision.named,
            kv_format=self.where.precision.kv.name,
            batch=int(self.batches[j]),
            tpot_s=tpot_s,
            ttft_s=None if self.kind == "decode" else ttft_s,
            interactivity_tokens_per_s=1 / tpot_s,
            throughput_tokens_per_s_per_chip=throughput,
            usd_per_mtok=None if hourly is None else hourly / 3600 / throughput * 1e6,
            bound=self._bound(j),
        )

    def _bound(self, j: int) -> str:
        """Memory capacity where more sequences would share what bounds the step but find no room: all but compute."""
        full = self.batches[j] + together_at_least(self.where) > self.most
        return CAPACITY if full and self.load.bounds[j] != "compute" else self.load.bounds[j]

    def allowed(self, slo_tokens_per_s: float = 0.0, ttft_s: float | None = None) -> Flags:
        """[N] which meet both."""
        late = np.inf if ttft_s is None else ttft_s
        return np.asarray((self.interactivity >= slo_tokens_per_s) & (self.load.ttft_s <= late))

    def best_at(self, slo_tokens_per_s: float, ttft_s: float | None = None) -> int | None:
        """The batch of highest throughput at which every user gets that; None: there is none."""
        reached = np.where(self.allowed(slo_tokens_per_s, ttft_s), self.throughput, -1.0)
        best = int(np.argmax(reached))
        return best if reached[best] > 0 else None


def cuts(model: ModelShape, system: System, max_chips: int = MAX_CHIPS, long: bool = False) -> Iterator[Parallelism]:
    """Every cut worth trying that fits the model's heads and experts, within one scale-up domain. Experts are dealt out
    over all chips of a stage, or each is cut by all of them; without experts, groups of sequences would share nothing,
    and are replicas. `long`: a cache whose heads are all dealt out is cut by its tokens too.
    """
    heads = {layer.attention.num_heads for layer, _ in model.layer_counts if layer.attention.num_heads}
    experts = {layer.feed_forward.experts.total for layer, _ in model.layer_counts if layer.feed_forward.experts}
    room = min(max_chips, system.scaleup_chips if system.scaleup else 1)
    for chips in (n for n in _CHIPS if n <= room):
        for stages in (s for s in _STAGES if chips % s == 0 and s <= len(model.layers)):
            stage = chips // stages
            dealt = [stage] if experts and stage > 1 and all(e % stage == 0 for e in experts) else []
            for tensor in (t for t in range(1, stage + 1) if stage % t == 0 and all(h % t == 0 for h in heads)):
                rest = stage // tensor
                for expert in (1, *dealt):
                    if experts or rest == 1:
                        yield Parallelism(tensor, stages, expert, rest)
                    if long and rest > 1 and all(tensor % kv_heads == 0 for kv_heads in _kv_heads(model)):
                        yield Parallelism(tensor, stages, expert, context=rest)


def _kv_heads(model: ModelShape) -> set[int]:
    return {part.kv_heads for layer, _ in model.layer_counts for part in attends(layer.attention)}


def is_long(model: ModelShape, precision: Precision, tokens: int) -> bool:
    """Whether a sequence's cache is worth cutting: it is at least a tenth of the weights that a token needs."""
    weights_bytes = precision.weights.size_bytes(parameters(model).active)
    return kv_bytes(model, tokens, precision) >= weights_bytes / 10


def batch_ladder(most: int, steps: int = 64) -> Ints:
    """At most `steps` batch sizes from 1 to `most`, evenly spaced in their logarithm."""
    return np.unique(np.rint(np.geomspace(1, most, steps)).astype(np.int64))


def common_fits(systems: Sequence[System], fitted: Mapping[str, Calibration]) -> dict[str, Calibration]:
    """Calibrations by chip if every system's chip has one; else none, so that all are compared by the same measure."""
    names = [system.chip.name for system in systems]
    return {name: fitted[name] for name in names} if set(names) <= set(fitted) else {}


def sweeps(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    load: Lengths | int,
    fits: Mapping[str, Calibration],
    max_chips: int = MAX_CHIPS,
    ttft_s: float | None = None,
) -> list[Sweep]:
    """Those in which at least one sequence a group and stage fits. `load`: what requests are like; a number: no
    prompts, every sequence is that long.
    """
    found: list[Sweep] = []
    for tried in deployments(name, model, systems, precisions, load, fits, max_chips):
        found += _decoding(tried, load) if isinstance(load, int) else serving(tried, load, max_chips, ttft_s)
    return found


def deployments(
    name: str,
    model: ModelShape,
    systems: Sequence[System],
    precisions: Sequence[Precision],
    load: Lengths | int,
    fits: Mapping[str, Calibration],
    max_chips: int,
) -> Iterator[Iterator[Deployment]]:
    """Every cut, whether it fits or not; those of one system and format together."""
    for system, precision in product(systems, precisions):
        fit, long = fits.get(system.chip.name), is_long(model, precision, asked_tokens(load)[0])
        yield (Deployment(name, model, system, precision, cut, fit) for cut in cuts(model, system, max_chips, long))


def _decoding(tried: Iterator[Deployment], context: int) -> Iterator[Sweep]:
    for where, most, batches, step in _steps(tried, context):
        load = Load(step.step_s, np.zeros(len(batches)), batches / step.step_s, longest(step.busy_s))
        yield Sweep(where, "decode", batches, most, load)


def serving(tried: Iterator[Deployment], lengths: Lengths, max_chips: int, ttft_s: float | None) -> Iterator[Sweep]:
    """All of one system and format: they have one fit, and share what computes prompts."""
    rooms, found = [], []
    for where, most, batches, step in _steps(tried, lengths.middle):
        rooms.append(most)
        found.append((where, Steps(batches, step, where.prompt(lengths.new, lengths.cached))))
    if not found:
        return
    loads = mixed([steps for _, steps in found], lengths, found[0][0].fitted)
    for (where, steps), most, load in zip(found, rooms, loads, strict=True):
        yield Sweep(where, "mixed", steps.batch, most, load)
    if pools := best_pools(found, lengths, ttft_s):
        for (where, steps), most, parts in zip(found, rooms, split(found, pools, lengths, max_chips), strict=True):
            if parts.room.any():
                yield Sweep(where, "split", steps.batch[parts.room], most, parts.load, parts.pools)


def _steps(tried: Iterator[Deployment], context: int) -> Iterator[tuple[Deployment, int, Ints, StepCost]]:
    """Where not even one sequence a group and stage fits is left out."""
    for where in tried:
        most, together = _most(where, context), together_at_least(where)
        if most >= together:
            batches = batch_ladder(min(most, MAX_BATCH) // together) * together
            yield where, most, batches, where.cost(where.decode_shape(batches, context))


def together_at_least(where: Deployment) -> int:
    """Sequences that keep every group and stage at work."""
    return where.cut.data * where.cut.pipeline


def _most(where: Deployment, context: int) -> int:
    model, precision, cut = where.model, where.precision, where.cut
    room = where.system.chip.hbm_bytes * USABLE - weight_bytes_per_chip(model, precision, cut)
    group = kv_bytes_per_chip(model, context, 1, precision, cut)
    return int(room / group) * cut.data if room > 0 else 0
