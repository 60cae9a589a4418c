"""From a model directory to an executor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from headway.arithmetic.shape import ModelShape
from headway.engine.errors import ModelError
from headway.engine.executor import TorchExecutor, out_of_memory
from headway.engine.kv_cache import KVCache, cache_groups
from headway.engine.memory import plan_num_blocks
from headway.engine.model import Model
from headway.engine.model_files import eos_token_ids, read_shape, read_tokenizer
from headway.engine.support import check_supported
from headway.engine.weights import load_weights
from headway.scheduler.config import CacheGroup

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    executor: TorchExecutor
    shape: ModelShape
    groups: tuple[CacheGroup, ...]
    """For `SchedulerConfig.groups`, in the order of the plans' `blocks`."""
    block_size: int
    max_context: int
    max_running: int
    eos_token_ids: tuple[int, ...]
    dtype: str
    device: str

    @property
    def num_blocks(self) -> int:
        """Of the first cache group."""
        return self.groups[0].num_blocks


def _context(asked: int | None, most: int | None) -> int:
    """Raises ModelError unless it is known, and within what the model has."""
    if asked is None and most is None:
        raise ModelError("config.json has no max_position_embeddings: give max_context")
    if asked is not None and not 1 <= asked <= (most or asked):
        raise ModelError(f"max_context must be between 1 and the model's {most}, not {asked}")
    return asked or most or 1


def load(
    model_dir: Path,
    *,
    dtype: str = "auto",
    device: str = "auto",
    block_size: int = 16,
    max_running: int = 256,
    max_context: int | None = None,
    kv_bytes: int | None = None,
) -> LoadedModel:
    """Reads the weights, plans KV memory beside them and builds the executor. Raises ModelError."""
    for name, value in (("block_size", block_size), ("max_running", max_running)):
        if value < 1:
            raise ModelError(f"{name} must be at least 1, not {value}")
    where = resolve_device(device)
    number = resolve_dtype(dtype, where)
    shape = read_shape(model_dir)
    check_supported(shape)
    tokenizer = read_tokenizer(model_dir, shape.vocab)
    context = _context(max_context, shape.max_context)
    try:
        weights = load_weights(model_dir, shape, number, where)
        num_blocks = plan_num_blocks(shape, block_size, number, where, max_context=context, kv_bytes=kv_bytes)
        cache = KVCache(shape, num_blocks, block_size, number, where)
    except (MemoryError, RuntimeError, OSError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        raise ModelError(f"{model_dir}: not enough memory for the model: {error}") from None
    return LoadedModel(
        executor=TorchExecutor(Model(shape, weights, cache), max_running=max_running, max_context=context),
        shape=shape,
        groups=tuple(
            CacheGroup(group.kind, blocks, group.window)
            for group, blocks in zip(cache_groups(shape), num_blocks, strict=True)
        ),
        block_size=block_size,
        max_context=context,
        max_running=max_running,
        eos_token_ids=eos_token_ids(model_dir, tokenizer),
        dtype=str(number).removeprefix("torch."),
        device=str(where),
    )


def resolve_device(name: str) -> torch.device:
    """`auto` is the first GPU, or the CPU. Raises ModelError for a device that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return device


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` is float32 on a CPU and bfloat16 elsewhere.

    On CPUs that multiply bfloat16 natively it is faster (see benchmarks/dtype.py; little for one row, up to twice for
    many), on others slower. float32 is exact enough that a row's tokens do not depend on its company on either.
    """
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in DTYPES:
        raise ModelError(f"dtype must be auto, {' or '.join(DTYPES)}, not {name!r}")
    return DTYPES[name]
