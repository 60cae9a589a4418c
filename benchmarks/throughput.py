"""Planned against published throughput at full load, prompts included: figures that no fit has seen.

`python benchmarks/throughput.py --data measured_points.csv.gz`: rows of output throughput in tokens/s of one replica
whose layout is stated, each against the highest rate of that replica by `plan best`'s arithmetic and the engine's fit.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import defaultdict
from itertools import chain
from pathlib import Path

import numpy as np

from headway.arithmetic.shape import ShapeError
from headway.catalog import Catalog, CatalogError, load_catalog
from headway.cli.plan_options import fit_for
from headway.planner.deployment import Deployment
from headway.planner.lengths import Lengths
from headway.planner.sweep import serving
from headway.planner.truth.aliases import engine_name, model_name, system_name, weights_name
from headway.planner.truth.configuration import cut, formats
from headway.planner.truth.layout import layouts
from headway.planner.truth.measurement import Measurement
from headway.planner.truth.models import measured_shape

METRICS = {"output_throughput_per_gpu": True, "output_throughput_total": False}
"""Whether it is that of one chip."""


def measured(row: dict[str, str], catalog: Catalog) -> Measurement | None:
    """None: not a throughput at full load of a replica that is known. The value is tokens/s."""
    system, model = system_name(row["hardware"], catalog), model_name(row["model"], catalog)
    engine = engine_name(row["engine"])
    layout = layouts(row["tp"], row["ep"], row["pp"])
    if row["metric"] not in METRICS or not row["concurrency_or_batch"].startswith("max load"):
        return None
    weights = weights_name(row["precision"], row["model"])
    if not (system and model and layout and weights and row["isl"].isdigit() and row["osl"].isdigit()):
        return None
    lengths, value = (int(row["isl"]), int(row["osl"])), float(row["value"])
    named = (row["source"], system[0], engine, row["engine"], model, weights)
    return Measurement(*named, *layout, False, *lengths, 1, "tpot", value, row["url_or_path"])


def planned(m: Measurement, catalog: Catalog) -> tuple[float, int] | None:
    """Tokens/s of the replica, and its chips; None: it is not fitted or does not fit."""
    model, system = measured_shape(catalog, m.model), catalog.system(m.system)
    stored = formats(m, model, system)
    fit = fit_for(catalog, system.chip.name, m.engine)
    if fit is None:
        return None
    where = Deployment(m.model, model, system, stored, cut(model, m.decode, stored, system), fit)
    found = next(serving(iter([where]), Lengths(m.prompt_tokens, 0, m.output_tokens), where.cut.chips, None), None)
    return None if found is None else (float(found.load.tokens_per_s.max()), where.cut.chips)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    catalog, left = load_catalog(), 0
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    with gzip.open(parser.parse_args().data, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            if (m := measured(row, catalog)) is None:
                continue
            try:
                found = planned(m, catalog)
            except (CatalogError, ShapeError):
                found = None
            if found is None:
                left += 1
                continue
            rate, chips = found
            ratios[m.model, m.system].append(rate / (m.value_s * (chips if METRICS[row["metric"]] else 1)))
    print(f"{'model':18} {'system':16} {'rows':>5} {'planned / published':>20} {'median error':>13} {'mean':>6}")
    for (model, system), each in [*sorted(ratios.items()), (("all", ""), list(chain(*ratios.values())))]:
        off = np.abs(np.array(each) - 1)
        print(
            f"{model:18} {system:16} {len(each):5} {np.median(each):20.2f} {np.median(off):13.1%} {np.mean(off):6.1%}"
        )
    print(f"{left} rows are of replicas without a fit, or that do not fit")


if __name__ == "__main__":
    main()
