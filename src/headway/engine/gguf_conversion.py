"""A GGUF file as a Hugging Face directory: config, fp32 safetensors, tokenizer. Llama architecture."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.shape import ModelShape, ShapeError
from headway.engine.errors import ModelError
from headway.engine.gguf_metadata import Metadata, llama_config
from headway.engine.gguf_tokenizer import build_tokenizer, tokenizer_config
from headway.engine.model_files import MAX_LAYERS
from headway.engine.progress import Report
from headway.engine.support import check_supported
from headway.engine.weight_names import Part, layer_parts, model_parts

SHARD_BYTES = 2 * 2**30

_OUTER_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def convert_gguf(path: Path, out_dir: Path, report: Report) -> None:
    """Fills `out_dir`. Raises ModelError, naming the tensor or key, when the file is not a model that can be run."""
    try:
        reader = gguf.GGUFReader(path)
    except Exception as error:  # The reader meets a broken file with whatever its arithmetic raises.
        raise ModelError(f"{path} is not a readable GGUF file: {error}") from None
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    metadata = Metadata(path, reader)
    config = llama_config(metadata, tied="output.weight" not in tensors, special=_extra(tensors))
    shape = _shape(path, config)
    tokenizer = build_tokenizer(metadata, shape.vocab)
    _check_disk(path, out_dir, shape.num_params * 4)
    for name, value in (
        ("config.json", config),
        *tokenizer_config(metadata, config["max_position_embeddings"]).items(),
    ):
        (out_dir / name).write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(str(out_dir / "tokenizer.json"))
    _write_weights(path, tensors, shape, out_dir, report)


def _extra(tensors: dict[str, Any]) -> list[str]:
    """Tensors that change the model in a way that the config does not say."""
    return [
        name for name in tensors if name.startswith("rope_freqs") or "_exps" in name or name.endswith("_norm_2.weight")
    ]


def _shape(path: Path, config: dict[str, Any]) -> ModelShape:
    if config["num_hidden_layers"] > MAX_LAYERS:
        raise ModelError(f"{path}: llama.block_count is {config['num_hidden_layers']}; the limit is {MAX_LAYERS}")
    try:
        shape = shape_from_config(config)
    except ShapeError as error:
        raise ModelError(f"{path}: {error}") from None
    check_supported(shape)
    return shape


def _check_disk(path: Path, out_dir: Path, size_bytes: int) -> None:
    free = shutil.disk_usage(out_dir).free
    if free < size_bytes:
        raise ModelError(f"{path} needs {size_bytes} bytes in {out_dir.parent} when converted; {free} are free")


def _write_weights(path: Path, tensors: dict[str, Any], shape: ModelShape, out_dir: Path, report: Report) -> None:
    shards = _shards(_sources(shape))
    weight_map: dict[str, str] = {}
    done, total = 0, sum(len(shard) for shard in shards)
    for number, shard in enumerate(shards, 1):
        name = "model.safetensors" if len(shards) == 1 else f"model-{number:05}-of-{len(shards):05}.safetensors"
        data: dict[str, npt.NDArray[np.float32]] = {}
        for tensor_name, dims in shard:
            data[tensor_name] = _tensor(path, tensors, tensor_name, dims, shape)
            done += 1
            report(f"Converting {path.stem}", done, total)
        save_file(data, out_dir / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(data, name))
    if len(shards) > 1:
        index = {"metadata": {"total_size": shape.num_params * 4}, "weight_map": weight_map}
        (out_dir / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def _sources(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    parts: list[Part] = list(model_parts(shape).values())
    for index in range(len(shape.layers)):
        parts += layer_parts(shape, index).values()
    for part in parts:
        yield from part.sources


def _shards(sources: Iterator[tuple[str, tuple[int, ...]]]) -> list[list[tuple[str, tuple[int, ...]]]]:
    shards: list[list[tuple[str, tuple[int, ...]]]] = [[]]
    size = 0
    for name, dims in sources:
        tensor_bytes = math.prod(dims) * 4
        if shards[-1] and size + tensor_bytes > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append((name, dims))
        size += tensor_bytes
    return shards


def _tensor(
    path: Path, tensors: dict[str, Any], name: str, dims: tuple[int, ...], shape: ModelShape
) -> npt.NDArray[np.float32]:
    gguf_name = _gguf_name(name)
    if gguf_name not in tensors:
        raise ModelError(f"{path}: tensor {gguf_name} is missing")
    tensor = tensors[gguf_name]
    found = tuple(int(n) for n in reversed(tensor.shape))
    if found != dims:
        raise ModelError(f"{path}: tensor {gguf_name} is {list(found)}, the metadata asks for {list(dims)}")
    try:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(dims)
    except (NotImplementedError, ValueError) as error:
        raise ModelError(f"{path}: tensor {gguf_name} ({tensor.tensor_type.name}) cannot be read: {error}") from None
    a = shape.layers[0].attention
    if ".q_proj." in name:
        values = _halves_from_pairs(values, a.num_heads)
    elif ".k_proj." in name:
        values = _halves_from_pairs(values, a.num_kv_heads)
    return np.ascontiguousarray(values, np.float32)


def _halves_from_pairs(weight: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """In GGUF the two numbers that rotate together stand side by side; Hugging Face has them half a head apart."""
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _gguf_name(name: str) -> str:
    if name in _OUTER_NAMES:
        return _OUTER_NAMES[name]
    index, rest = name.removeprefix("model.layers.").split(".", 1)
    stem, kind = rest.rsplit(".", 1)
    return f"blk.{index}.{_LAYER_NAMES[stem]}.{kind}"
