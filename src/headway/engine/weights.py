"""Weights of the generic decoder, read from safetensors files into memory of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from headway.arithmetic.shape import ModelShape
from headway.engine.arena import Arena, aligned_bytes
from headway.engine.errors import ModelError
from headway.engine.model_files import MAX_INDEX_BYTES, read_json
from headway.engine.weight_names import Part, layer_parts, model_parts

_FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Matrices are [out, in]. q, k and v are one matrix, gate and up another: a layer reads its input twice, not five
    times."""

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    output: torch.Tensor
    feed_forward_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    qkv_bias: torch.Tensor | None = None
    output_bias: torch.Tensor | None = None
    q_norm: torch.Tensor | None = None
    k_norm: torch.Tensor | None = None
    gate_up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class ModelWeights:
    embedding: torch.Tensor
    """[vocab, hidden]."""
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: torch.Tensor
    """[vocab, hidden]; the embedding itself when tied."""


def load_weights(model_dir: Path, shape: ModelShape, dtype: torch.dtype, device: torch.device) -> ModelWeights:
    """Every tensor that the shape names, checked before any is read.

    Raises ModelError, naming the tensor, when one is missing, has another shape, or is not fp32, fp16 or bf16.
    The files may change or vanish afterwards.
    """
    layers = [layer_parts(shape, index) for index in range(len(shape.layers))]
    ends = model_parts(shape)
    parts = [part for group in (*layers, ends) for part in group.values()]
    with contextlib.ExitStack() as stack:
        files = _TensorFiles(model_dir, stack)
        for part in parts:
            files.check(part)
        arena = Arena(sum(aligned_bytes(part.shape, dtype) for part in parts), device)
        loaded = [{field: _load(files, part, arena, dtype) for field, part in group.items()} for group in layers]
        outer = {field: _load(files, part, arena, dtype) for field, part in ends.items()}
    return ModelWeights(
        embedding=outer["embedding"],
        layers=tuple(LayerWeights(**fields) for fields in loaded),
        norm=outer["norm"],
        head=outer.get("head", outer["embedding"]),
    )


def _load(files: _TensorFiles, part: Part, arena: Arena, dtype: torch.dtype) -> torch.Tensor:
    target = arena.take(part.shape, dtype)
    row = 0
    for name, shape in part.sources:
        target[row : row + shape[0]].copy_(files.tensor(name))
        row += shape[0]
    return target


class _TensorFiles:
    """The tensors of a directory by name, from one file or from the shards that an index lists."""

    def __init__(self, model_dir: Path, stack: contextlib.ExitStack) -> None:
        self._dir = model_dir
        self._file_of: dict[str, Any] = {}
        for path in _weight_files(model_dir):
            try:
                file = stack.enter_context(safe_open(path, framework="pt"))
                self._file_of.update(dict.fromkeys(file.keys(), file))
            except (SafetensorError, OSError) as error:
                raise ModelError(f"{path} is not a safetensors file: {error}") from None

    def check(self, part: Part) -> None:
        for name, shape in part.sources:
            if name not in self._file_of:
                raise ModelError(f"{self._dir}: tensor {name} is missing")
            view = self._file_of[name].get_slice(name)
            if tuple(view.get_shape()) != shape:
                raise ModelError(f"{self._dir}: tensor {name} is {view.get_shape()}, the config asks for {list(shape)}")
            if view.get_dtype() not in _FLOATS:
                raise ModelError(f"{self._dir}: tensor {name} is {view.get_dtype()}; supported: {', '.join(_FLOATS)}")

    def tensor(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._file_of[name].get_tensor(name)
        return tensor


def _weight_files(model_dir: Path) -> Iterator[Path]:
    single = model_dir / "model.safetensors"
    index = model_dir / "model.safetensors.index.json"
    if single.exists() or not index.exists():
        yield single
        return
    weight_map = read_json(index, MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ModelError(f"{index}: weight_map must be an object from tensor to file")
    for name in sorted({str(file) for file in weight_map.values()}):
        if name != Path(name).name:
            raise ModelError(f"{index}: {name!r} must be the name of a file in the same directory")
        yield model_dir / name
