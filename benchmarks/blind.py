"""Published measurements that `--data` does not hold, in its columns: a blind test of the calibrated model.

`pip download aisimulate` has silicon_sample.csv (aisimulate_core/systems/), the measurements that it is validated on:

    python benchmarks/blind.py --silicon silicon_sample.csv --data measured_points.csv.gz --out unseen.csv
    headway plan validate --data measured_points.csv.gz --data measured_fit.csv --unseen unseen.csv

Use it once for a model that is finished. Who chooses by it makes it a part of the fit.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from headway.planner.truth.readers import POINTS

Row = dict[str, str]


def points(row: Row) -> Iterator[Row]:
    """TPOT and TTFT of one measured configuration."""
    apart = row["mode"] == "disagg"
    said = row["silicon_data_source"]
    concurrency = said.partition("silicon_concurrency=")[2].partition(";")[0] or row["batch_size"]
    point = {
        "source": "NVIDIA-AIC-gap-analysis" if "gap-analysis" in said else "InferenceX",
        "hardware": row["system"],
        "n_gpu": chips(row, apart),
        "engine": f"{row['backend']} {row['backend_version']}".strip() + " disagg" * apart,
        "model": row["model_path"],
        "precision": row["precision"],
        "tp": both(row, "tp_size", apart),
        "ep": both(row, "moe_ep_size", apart),
        "pp": both(row, "pp_size", apart),
        "isl": row["isl"],
        "osl": row["osl"],
        "concurrency_or_batch": concurrency,
        "unit": "ms",
        "url_or_path": f"silicon_sample.csv#{row['id']}",
    }
    for metric in ("ttft", "tpot"):
        yield point | {"metric": metric, "value": row[f"silicon_{metric}_ms"]}


def both(row: Row, name: str, apart: bool) -> str:
    return f"P{row[f'prefill_{name}']}xD{row[f'decode_{name}']}" if apart else row[name]


def chips(row: Row, apart: bool) -> str:
    """Of all replicas; empty: not stated."""
    if not apart:
        return str(int(row["tp_size"]) * int(row["pp_size"]) * max(1, int(row["attention_dp_size"] or 1)))
    total = 0
    for side in ("prefill", "decode"):
        if not row[f"{side}_num_workers"]:
            return ""
        each = (row[f"{side}_{name}"] for name in ("num_workers", "tp_size", "attention_dp_size"))
        workers, tensor, data = map(int, each)
        total += workers * tensor * data
    return str(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("silicon", "data", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    asked = parser.parse_args()
    with gzip.open(asked.data, "rt", newline="") as stream:
        known = {row["url_or_path"].rpartition("#")[2] for row in csv.DictReader(stream)}
    with asked.silicon.open(newline="") as stream:
        unseen = [row for row in csv.DictReader(stream) if row["id"] not in known]
    with asked.out.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, POINTS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(point for row in unseen for point in points(row))
    for (model, system), count in sorted(Counter((row["model_path"], row["system"]) for row in unseen).items()):
        print(f"{model:28} {system:10} {count:5} configurations")


if __name__ == "__main__":
    main()
