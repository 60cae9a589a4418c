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
from headway.engine.linear import Linear, can_pack
from headway.engine.model_files import MAX_INDEX_BYTES, read_json
from headway.engine.weight_names import MATRICES, Part, layer_parts, model_parts

_FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """q, k and v are one matrix, gate and up another: a layer reads its input twice, not five times."""

    attention_norm: torch.Tensor
    qkv: Linear
    output: Linear
    feed_forward_norm: torch.Tensor
    gate_up: Linear
    down: Linear
    q_norm: torch.Tensor | None = None
    k_norm: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class ModelWeights:
    embedding: torch.Tensor
    """[vocab, hidden]."""
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: Linear
    """Hidden to vocab; the embedding's values when tied."""


def load_weights(
    model_dir: Path, shape: ModelShape, dtype: torch.dtype, device: torch.device, pack: bool | None = None
) -> ModelWeights:
    """Every tensor that the shape names, checked before any is read. `pack`: None where it works (see `Linear`).

    Raises ModelError, naming the tensor, when one is missing, has another shape, or is not fp32, fp16 or bf16.
    The files may change or vanish afterwards.
    """
    layers = [layer_parts(shape, index) for index in range(len(shape.layers))]
    ends = model_parts(shape)
    with contextlib.ExitStack() as stack:
        files = _TensorFiles(model_dir, stack)
        for part in (part for group in (*layers, ends) for part in group.values()):
            files.check(part)
        packed = can_pack(device, dtype) if pack is None else pack
        loader = _Loader(files, [*layers, ends], dtype, device, packed)
        loaded = [loader.layer(parts) for parts in layers]
        embedding = loader.tensor(ends["embedding"])
        head = loader.matrix(ends, "head") if "head" in ends else Linear(embedding, None, packed=packed)
        return ModelWeights(embedding, tuple(loaded), loader.tensor(ends["norm"]), head)


class _Loader:
    """Reads parts into one arena, packed matrices aside."""

    def __init__(
        self,
        files: _TensorFiles,
        groups: list[dict[str, Part]],
        dtype: torch.dtype,
        device: torch.device,
        packed: bool,
    ) -> None:
        self._files, self._dtype, self._device, self._packed = files, dtype, device, packed
        kept = (p for group in groups for field, p in group.items() if not (packed and field in MATRICES))
        self._arena = Arena(sum(aligned_bytes(part.shape, dtype) for part in kept), device, huge_pages=True)

    def layer(self, parts: dict[str, Part]) -> LayerWeights:
        optional = {field: self.tensor(parts[field]) for field in ("q_norm", "k_norm") if field in parts}
        return LayerWeights(
            attention_norm=self.tensor(parts["attention_norm"]),
            qkv=self.matrix(parts, "qkv"),
            output=self.matrix(parts, "output"),
            feed_forward_norm=self.tensor(parts["feed_forward_norm"]),
            gate_up=self.matrix(parts, "gate_up"),
            down=self.matrix(parts, "down"),
            **optional,
        )

    def matrix(self, parts: dict[str, Part], field: str) -> Linear:
        part, bias = parts[field], parts.get(f"{field}_bias")
        if self._packed:
            weight = torch.empty(part.shape, dtype=self._dtype, device=self._device)
        else:
            weight = self._arena.take(part.shape, self._dtype)
        return Linear(self._fill(weight, part), None if bias is None else self.tensor(bias), packed=self._packed)

    def tensor(self, part: Part) -> torch.Tensor:
        return self._fill(self._arena.take(part.shape, self._dtype), part)

    def _fill(self, target: torch.Tensor, part: Part) -> torch.Tensor:
        row = 0
        for name, shape in part.sources:
            target[row : row + shape[0]].copy_(self._files.tensor(name))
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
