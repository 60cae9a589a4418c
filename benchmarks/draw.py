"""Two ways to draw a token from logits, side by side: one uniform number a position, or noise for every token id.

    python benchmarks/draw.py [--json]

Both depend only on logits, seed and position. One uniform number goes through the inverse CDF. Gumbel-max adds noise
keyed by (seed, position, token) and takes the best; a draft model could share that noise and be accepted more often.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from headway.engine.draw import philox4x32, uniforms
from headway.engine.sampler import inverse_cdf

VOCAB = 49_152
REPEATS = 9


def one_uniform(logits: torch.Tensor, seeds: np.ndarray, positions: np.ndarray) -> torch.Tensor:
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    return inverse_cdf(weights, torch.from_numpy(uniforms(seeds, positions)))[:, None]


def gumbel_max(logits: torch.Tensor, seeds: np.ndarray, positions: np.ndarray) -> torch.Tensor:
    """Philox gives four words a call, so a quarter of the counters suffices."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    counters = np.arange(-(-VOCAB // 4), dtype=np.uint64)[None, :]
    rows = positions.astype(np.uint64)[:, None]
    shape = np.broadcast_shapes(counters.shape, rows.shape)
    counter = tuple(np.broadcast_to(c, shape) for c in (counters, rows & mask, rows >> shift, np.uint64(0)))
    words = philox4x32(counter, (seeds[:, None] & mask, seeds[:, None] >> shift))  # type: ignore[arg-type]
    uniform = torch.from_numpy(np.concatenate(words, axis=1)[:, :VOCAB].astype(np.float32)).add_(0.5).mul_(2.0**-32)
    return (logits - uniform.log_().neg_().log_()).argmax(-1, keepdim=True)


def median_us(draw: Callable[..., torch.Tensor], rows: int) -> float:
    """Microseconds a row."""
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.standard_normal((rows, VOCAB), np.float32) * 3)
    seeds, positions = rng.integers(0, 2**63, rows).astype(np.uint64), rng.integers(0, 8192, rows)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        draw(logits.clone(), seeds, positions)
        times.append(time.perf_counter() - start)
    return round(statistics.median(times) / rows * 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args().json
    result = {
        str(rows): {"one_uniform_us": median_us(one_uniform, rows), "gumbel_max_us": median_us(gumbel_max, rows)}
        for rows in (1, 8, 32)
    }
    if as_json:
        print(json.dumps({"draw_us_a_row": result}))
        return
    for rows, us in result.items():
        one, noise = us["one_uniform_us"], us["gumbel_max_us"]
        print(f"{rows:>4} rows: one uniform {one:.1f} µs a row, Gumbel-max {noise:.1f} µs, ratio {noise / one:.1f}")


if __name__ == "__main__":
    main()
