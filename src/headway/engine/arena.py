"""One stretch of memory that many tensors are cut from."""

from __future__ import annotations

import contextlib
import math
import mmap

import torch

_ALIGNMENT_BYTES = 64


def aligned_bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Bytes that a tensor takes in an arena."""
    size = math.prod(shape) * dtype.itemsize
    return -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


class Arena:
    """Zeroed memory on a device, handed out once.

    On a CPU it is a private anonymous mapping: pages cost nothing until they are touched, and nothing ties a weight to
    the file that it came from.
    """

    def __init__(self, size_bytes: int, device: torch.device, *, huge_pages: bool = False, fileno: int = -1) -> None:
        """`huge_pages`, where the system has them: fewer page walks, for memory that is read from end to end. `fileno`:
        an open file that is long enough, to lie there instead of in memory.
        """
        self._used_bytes = 0
        size_bytes = max(size_bytes, _ALIGNMENT_BYTES)
        self._memory = (
            _mapped(size_bytes, huge_pages, fileno) if device.type == "cpu" else _allocated(size_bytes, device)
        )

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """The next tensor of this shape; raises MemoryError when the arena is used up."""
        start, end = self._used_bytes, self._used_bytes + aligned_bytes(shape, dtype)
        if end > self._memory.numel():
            raise MemoryError(f"arena of {self._memory.numel()} bytes is used up")
        self._used_bytes = end
        data = self._memory[start : start + math.prod(shape) * dtype.itemsize]
        return data.view(dtype).view(shape)


def _mapped(size_bytes: int, huge_pages: bool, fileno: int) -> torch.Tensor:
    memory = mmap.mmap(fileno, size_bytes)
    if huge_pages and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # A kernel without transparent huge pages refuses the advice.
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8, count=size_bytes)


def _allocated(size_bytes: int, device: torch.device) -> torch.Tensor:
    return torch.zeros(size_bytes, dtype=torch.uint8, device=device)
