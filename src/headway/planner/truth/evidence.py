"""All measurements of some files, priced, and fits to parts of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headway.arithmetic.experts import FloatArray
from headway.catalog import Catalog
from headway.planner.truth.measurement import DataError, Measurement
from headway.planner.truth.readers import DataFile
from headway.planner.truth.served import served, tags
from headway.roofline.fit import fit
from headway.roofline.pooled import Pooled
from headway.roofline.serving import Served, served_s
from headway.roofline.terms import Indices

Flags = npt.NDArray[np.bool_]
MOST_ALIKE = 24
"""Measurements of one model, system, release, format, mode and metric that enter a fit: more tell little new."""
EVEN = 0.5
"""Weights of groups: 0 counts measurements alike, 1 counts groups alike."""
FEWEST = 6
"""Smaller groups weigh as much as one of so many: a row that stands alone is often a slip."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """N measurements, what they are in the cost model's terms, and their tags."""

    found: tuple[Measurement, ...]
    served: Served
    tags: tuple[dict[str, str], ...]
    measured_s: FloatArray

    def __len__(self) -> int:
        return len(self.found)

    def where(self, says: Callable[[Measurement], object]) -> npt.NDArray[np.object_]:
        """[N] what `says` of each."""
        return np.array([says(m) for m in self.found], object)

    def fit(self, seen: Flags) -> Pooled:
        """To the measurements that are `seen` [N], and to nothing else. Raises DataError if there are none."""
        rows = thinned(self.found, np.flatnonzero(seen))
        if not len(rows):
            raise DataError("no measurement to fit to")
        chosen = [self.tags[i] for i in rows]
        return fit(self.served.take(rows), chosen, self.measured_s[rows], even_weights(self.found, rows))

    def predicted_s(self, pooled: Pooled, rows: Indices) -> FloatArray:
        return served_s(self.served.take(rows), pooled.resolved([self.tags[i] for i in rows]))


def evidence(files: Sequence[DataFile], catalog: Catalog) -> Evidence:
    """Repeats of one batch are one measurement, their median. Raises CatalogError or ShapeError."""
    alike: dict[Measurement, list[float]] = defaultdict(list)
    for file in files:
        for m in file.measurements:
            key = replace(m, where="", value_s=0.0) if m.batch else m
            alike[key].append(m.value_s)
    found = tuple(replace(m, value_s=float(np.median(values))) for m, values in alike.items())
    if not found:
        raise DataError("the data hold no measurement of a known model on a known system")
    seconds = np.array([m.value_s for m in found])
    return Evidence(found, served(found, catalog), tuple(tags(m, catalog) for m in found), seconds)


def thinned(found: Sequence[Measurement], rows: Indices) -> Indices:
    """At most MOST_ALIKE rows of each kind, evenly taken in the order of the file."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i in rows:
        m = found[i]
        groups[(m.model, m.system, m.release, m.weights, m.metric, m.apart)].append(int(i))
    kept = [i for group in groups.values() for i in _evenly(group)]
    return np.array(sorted(kept), np.int64)


def _evenly(group: Sequence[int]) -> list[int]:
    size = min(len(group), MOST_ALIKE)
    return [group[k * len(group) // size] for k in range(size)]


def even_weights(found: Sequence[Measurement], rows: Indices) -> FloatArray:
    """[len(rows)] with mean 1: a model that was measured a thousand times does not outweigh all others."""
    groups = [(m.model, m.system, m.engine, m.metric, m.apart, m.batch) for m in (found[i] for i in rows)]
    sizes = Counter(groups)
    weights = np.array([max(sizes[group], FEWEST) ** -EVEN for group in groups])
    return np.asarray(weights / weights.mean())
