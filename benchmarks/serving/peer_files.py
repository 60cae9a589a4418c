"""The default model in the forms that peers read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file

from headway.engine.default_model import NAME, download_default_gguf
from headway.engine.progress import Report

Q4_1 = f"{NAME}.Q4_1.gguf"
Q4_0 = f"{NAME}.Q4_0.gguf"
W8A8 = f"{NAME}-w8a8"
_INT8_MAX = 127
_MIN_SCALE = 1e-8


def write_q4_1(path: Path, scratch: Path, report: Report) -> None:
    """The file as it is shipped."""
    shutil.move(download_default_gguf(scratch, report), path)


def write_q4_0(source: Path, path: Path) -> None:
    """Every Q4_1 tensor of `source` as Q4_0, the rest and the metadata as they are."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, str(reader.fields["general.architecture"].contents()))
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            inner = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    for tensor in reader.tensors:
        kind, data = tensor.tensor_type, tensor.data
        if kind is gguf.GGMLQuantizationType.Q4_1:
            kind = gguf.GGMLQuantizationType.Q4_0
            data = gguf.quantize(gguf.dequantize(data, tensor.tensor_type), kind)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_w8a8(source: Path, folder: Path) -> None:
    """A compressed-tensors checkpoint: int8 weights with a scale a channel, activations int8 with a scale a token."""
    folder.mkdir()
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": _COMPRESSED}, indent=1))
    weights: dict[str, np.ndarray] = {}
    for name, value in load_file(source / "model.safetensors").items():
        weights |= _int8(name, value) if name.endswith("proj.weight") else {name: value}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _int8(name: str, weight: np.ndarray) -> dict[str, np.ndarray]:
    """weight [out, in]; scale [out, 1]."""
    scale = np.maximum(np.abs(weight).max(1, keepdims=True) / _INT8_MAX, _MIN_SCALE).astype(np.float32)
    return {name: np.rint(weight / scale).astype(np.int8), f"{name}_scale": scale}


def _integers(strategy: str, *, dynamic: bool) -> dict[str, object]:
    return {"num_bits": 8, "type": "int", "symmetric": True, "strategy": strategy, "dynamic": dynamic}


_COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": _integers("channel", dynamic=False),
            "input_activations": _integers("token", dynamic=True),
            "output_activations": None,
        }
    },
}
