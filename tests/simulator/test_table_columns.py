"""The per-request table says what its columns are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from click.testing import CliRunner

from headway.cli.simulate import simulate
from headway.simulator.columns import DESCRIPTIONS
from headway.simulator.record import COLUMNS


def test_each_column_of_the_file_has_its_description_and_unit(tmp_path: Path) -> None:
    path = tmp_path / "calls.parquet"
    result = CliRunner().invoke(simulate, ["--requests", "2", "--out", str(path), "--json"])
    assert result.exit_code == 0, result.output
    told = {field.name: {k.decode(): v.decode() for k, v in field.metadata.items()} for field in pq.read_schema(path)}
    assert tuple(told) == COLUMNS
    assert {name: about["description"] for name, about in told.items()} == DESCRIPTIONS
    units = {name: about["unit"] for name, about in told.items() if "unit" in about}
    assert units["arrival_s"] == units["e2e_s"] == "s"
    assert (units["device_share_ns"], units["energy_j"], units["cost_usd"]) == ("ns", "J", "USD")
    assert (units["kv_bytes"], units["flops"], units["input_tokens"]) == ("bytes", "FLOP", "tokens")
    assert {name for name in COLUMNS if name.endswith(("_s", "_ns", "_j", "_usd", "_bytes", "_tokens"))} <= units.keys()


def test_no_description_is_of_another_column() -> None:
    assert DESCRIPTIONS.keys() == set(COLUMNS)
