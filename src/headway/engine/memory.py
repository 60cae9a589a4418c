"""How many KV blocks fit beside the weights."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from headway.arithmetic.shape import ModelShape
from headway.engine.errors import ModelError
from headway.engine.kv_cache import LayerGroup, cache_groups

CPU_FRACTION = 0.25
"""Of the memory that is available, for KV; the rest is for other programs and the step's own tensors."""
CPU_CAP_BYTES = 4 * 2**30
ACCELERATOR_FRACTION = 0.9

_MEMINFO = Path("/proc/meminfo")
_CGROUP_FILES = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def plan_num_blocks(
    shape: ModelShape,
    block_size: int,
    dtype: torch.dtype,
    device: torch.device,
    *,
    max_context: int,
    kv_bytes: int | None = None,
) -> tuple[int, ...]:
    """Blocks of each group of `cache_groups(shape)`, in proportion to what one sequence of `max_context` needs of each.

    `kv_bytes` is a budget from the user; without it the free memory decides. Raises ModelError when the budget is
    more than what is free, or does not hold one block of each group.
    """
    free = free_bytes(device)
    if kv_bytes is not None and kv_bytes > free:
        raise ModelError(f"kv_bytes: {_size(kv_bytes)} is more than the {_size(free)} that are free on {device}")
    budget = default_kv_bytes(free, device) if kv_bytes is None else kv_bytes
    groups = cache_groups(shape)
    block_bytes = [block_size * _token_values(shape, group) * dtype.itemsize for group in groups]
    blocks = [_blocks_of_one(group, block_size, max_context) for group in groups]
    sequences = budget / sum(n * size for n, size in zip(blocks, block_bytes, strict=True))
    result = tuple(int(n * sequences) for n in blocks)
    if min(result) < 1:
        need = _size(sum(block_bytes))
        raise ModelError(f"kv_bytes: {_size(budget)} holds no KV block; one of each cache group takes {need}")
    return result


def _size(size_bytes: int) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes >= 1 << power:
            return f"{size_bytes / (1 << power):.2f} {unit}"
    return f"{size_bytes} bytes"


def default_kv_bytes(free: int, device: torch.device) -> int:
    if device.type == "cpu":
        return min(int(free * CPU_FRACTION), CPU_CAP_BYTES)
    return int(free * ACCELERATOR_FRACTION)


def free_bytes(device: torch.device) -> int:
    """Memory that this process could still take: the machine's or its control group's, whichever is less."""
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    limits = [_available_bytes()]
    for limit_file, usage_file in _CGROUP_FILES:
        with contextlib.suppress(OSError, ValueError):  # No such file, or "max".
            limits.append(max(0, int(limit_file.read_text()) - int(usage_file.read_text())))
    return min(limits)


def _available_bytes() -> int:
    with contextlib.suppress(OSError):
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _token_values(shape: ModelShape, group: LayerGroup) -> int:
    return sum(shape.layers[i].attention.kv_values_per_token for i in group.layers)


def _blocks_of_one(group: LayerGroup, block_size: int, max_context: int) -> int:
    """Blocks that a sequence of `max_context` tokens holds; a window may begin inside a block and end inside one."""
    whole = -(-max_context // block_size)
    return min(whole, -(-group.window // block_size) + 1) if group.window else whole
