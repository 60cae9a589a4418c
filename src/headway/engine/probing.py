"""Two probes of a device, as bounds for a fit: one large matrix product, and one that does little but read memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.nn.functional import linear

from headway.engine.memory import free_bytes

PRODUCT_ROWS = 2048
READ_BYTES = 256 * 2**20
TRIES = 5


def probe_flops_per_s(dtype: torch.dtype, device: torch.device) -> float:
    """Of a product of PRODUCT_ROWS cubed, the fastest of TRIES."""
    side = PRODUCT_ROWS
    a, b = (torch.ones(side, side, dtype=dtype, device=device) for _ in range(2))
    return 2.0 * side**3 / _fastest_s(lambda: linear(a, b), device)


def probe_bytes_per_s(dtype: torch.dtype, device: torch.device) -> float:
    """Of one row times a matrix that no cache holds, as a decode step reads weights."""
    size = min(READ_BYTES, free_bytes(device) // 8)
    width = 4096
    matrix = torch.ones(max(1, size // (width * dtype.itemsize)), width, dtype=dtype, device=device)
    row = torch.ones(1, width, dtype=dtype, device=device)
    return matrix.numel() * dtype.itemsize / _fastest_s(lambda: linear(row, matrix), device)


def _fastest_s(run: Callable[[], torch.Tensor], device: torch.device) -> float:
    times = []
    with torch.inference_mode():
        for _ in range(TRIES + 1):
            began = time.perf_counter()
            run()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - began)
    return min(times[1:])
