"""Files for peers hold the same model, as near as their format allows."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from benchmarks.serving.peer_files import write_q4_0, write_w8a8
from safetensors.numpy import load_file

from tests.process.tiny_model import write_tiny_model

Q4_0, Q4_1, F32 = (gguf.GGMLQuantizationType[name] for name in ("Q4_0", "Q4_1", "F32"))


def write_gguf(path: Path, tensors: dict[str, np.ndarray]) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_rope_freq_base(100000.0)
    writer.add_token_list(["a", "b"])
    writer.add_token_scores([0.5, 1.0])
    writer.add_add_bos_token(False)
    for name, values in tensors.items():
        kind = Q4_1 if values.ndim == 2 else F32
        writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_q4_0_keeps_metadata_and_values(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).normal(0, 1, (8, 64)).astype(np.float32)
    write_gguf(tmp_path / "in.gguf", {"matrix": matrix, "norm": np.linspace(0, 1, 64, dtype=np.float32)})
    write_q4_0(tmp_path / "in.gguf", tmp_path / "out.gguf")
    source, made = gguf.GGUFReader(tmp_path / "in.gguf"), gguf.GGUFReader(tmp_path / "out.gguf")
    kept = {name: field.contents() for name, field in source.fields.items() if name[:5] != "GGUF."}
    found = {name: field.contents() for name, field in made.fields.items() if name[:5] != "GGUF."}
    assert found == kept | {"general.file_type": int(gguf.LlamaFileType.MOSTLY_Q4_0)}
    tensors = {tensor.name: tensor for tensor in made.tensors}
    assert (tensors["matrix"].tensor_type, tensors["norm"].tensor_type) == (Q4_0, F32)
    step = np.abs(matrix).reshape(8, 2, 32).max(-1).repeat(32, 1) / 8
    # One step of Q4_0 at most, and half of one of Q4_1, whose steps are no larger.
    assert (np.abs(gguf.dequantize(tensors["matrix"].data, Q4_0) - matrix) <= 1.6 * step).all()
    np.testing.assert_array_equal(tensors["norm"].data, np.linspace(0, 1, 64, dtype=np.float32))


def test_w8a8_is_within_half_a_step(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "model")
    for name in ("generation_config.json", "tokenizer_config.json"):
        (source / name).write_text("{}")
    write_w8a8(source, tmp_path / "w8a8")
    full, made = load_file(source / "model.safetensors"), load_file(tmp_path / "w8a8" / "model.safetensors")
    for name, values in full.items():
        if not name.endswith("proj.weight"):
            np.testing.assert_array_equal(made[name], values)
            continue
        scale = made[f"{name}_scale"]
        assert made[name].dtype == np.int8
        assert scale.shape == (len(values), 1)
        assert (np.abs(made[name] * scale - values) <= scale * 0.501).all()
    config = json.loads((tmp_path / "w8a8" / "config.json").read_text())
    assert config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] == 8
