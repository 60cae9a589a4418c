"""Machine files: what is written is read again; what is broken is refused in one line that says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.catalog import CatalogError, load_catalog
from headway.catalog.machine import MachineFile, read_machine, write_machine
from tests.machines import FIT, machine


def as_json(**changes: Any) -> bytes:
    return json.dumps({**json.loads(msgspec.json.encode(machine())), **changes}).encode()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    write_machine(machine(), path)
    assert read_machine(path) == machine()
    assert [file.name for file in tmp_path.iterdir()] == ["m.json"]


def test_toml_is_read_too(tmp_path: Path) -> None:
    fields: dict[str, Any] = msgspec.to_builtins(machine(config={"hidden_size": 8}))
    lines = [f"{k} = {json.dumps(v)}" for k, v in fields.items() if not isinstance(v, dict)]
    for name, table in fields.items():
        if isinstance(table, dict):
            lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in table.items() if v is not None)]
    path = tmp_path / "m.toml"
    path.write_text("\n".join(lines))
    assert read_machine(path) == machine(config={"hidden_size": 8})


def test_a_path_stands_for_a_system(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    write_machine(machine(), path)
    catalog = load_catalog()
    system = catalog.system(str(path))
    assert (system.scaleup_chips, system.chip.hbm_bytes_per_s, system.chip.bf16_flops_per_s) == (1, 2e10, 2e11)
    assert system.chip.figures["bf16_flops_per_s"].status == "measured"
    figures = catalog.calibration(system.chip.name, "any engine")
    assert {name: figures[name].value for name in FIT} == FIT
    assert figures["held_out_median_error"].value == 0.03


BROKEN = {
    "no JSON": b"{",
    "a list": b"[]",
    "nothing": b"",
    "no UTF-8": b"\xff\xfe{}",
    "deep": b"[" * 100_000,
    "another version": as_json(version=2),
    "no such field": as_json(speed=1),
    "a field missing": b'{"version": 1}',
    "text for a number": as_json(peaks={"memory_bytes": "many", "memory_bytes_per_s": 1.0, "flops_per_s": 1.0}),
    "no bandwidth": as_json(peaks={"memory_bytes": 1.0, "memory_bytes_per_s": 0, "flops_per_s": 1.0}),
    "a negative time": as_json(fit={"layer_s": -1e-3}),
    "no coefficient": as_json(fit={"speed": 1.0}),
    "more than all": as_json(fit={"compute_efficiency": 1.5}),
    "NaN": as_json(median_error=float("nan")),
    "half a block": as_json(served={"block_size": 0.5}),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_broken_files_are_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(CatalogError) as error:
        load_catalog().system(str(path))
    assert "m.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_infinite_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text("version = 1\nmedian_error = inf\n")
    with pytest.raises(CatalogError, match=r"m\.toml"):
        read_machine(path)
    for value in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"host_s"):
            machine(fit={"host_s": value})


def test_places_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    for name in ("absent.json", "folder.json"):
        (tmp_path / "folder.json").mkdir(exist_ok=True)
        with pytest.raises(CatalogError, match=name):
            read_machine(tmp_path / name)
    with pytest.raises(CatalogError, match="nowhere"):
        write_machine(machine(), tmp_path / "nowhere" / "m.json")
    huge = tmp_path / "huge.json"
    huge.write_bytes(b" " * 2_000_000)
    with pytest.raises(CatalogError, match="larger"):
        read_machine(huge)


def test_the_type_is_the_files() -> None:
    assert set(json.loads(as_json())) == set(MachineFile.__struct_fields__)
