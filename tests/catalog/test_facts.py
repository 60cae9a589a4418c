"""The facts in the package: complete, sourced, and marked by how sure they are."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from pathlib import Path

import pytest

from headway.catalog import Catalog, CatalogError, load_catalog
from headway.catalog.price import COLUMNS as PRICE_COLUMNS

DATA = Path(str(files("headway.catalog"))) / "data"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_sizes(catalog: Catalog) -> None:
    assert len(catalog.chips) == 39
    assert len(catalog.configs) == len(catalog.published) == 40
    assert len(catalog.prices) == 71
    assert set(catalog.configs) == set(catalog.published)
    assert {system.chip.name for system in catalog.systems.values()} == set(catalog.chips)


def test_what_is_uncertain_is_marked(catalog: Catalog) -> None:
    assert catalog.chip("h100-sxm").figures["hbm_bytes_per_s"].status == "datasheet"
    assert catalog.chip("vr200").figures["fp4_flops_per_s"].status == "announced"
    assert {f.status for f in catalog.chip("jalapeno").figures.values()} <= {"rumour", "announced"}
    assert catalog.chip("jalapeno").figures["hbm_bytes"].status == "rumour"
    assert catalog.system("hgx-h100").figures["scaleup_latency_s"].status == "rumour"


@pytest.mark.parametrize("table", sorted(DATA.glob("*.csv")), ids=lambda table: table.stem)
def test_what_has_no_source_is_a_rumour(table: Path) -> None:
    """A note to verify something later is no source."""
    for row in csv.DictReader(table.read_text().splitlines()):
        assert not {"unsourced", "verify"} & set(row["source"].replace("(", " ").split()), row
        assert "no source found" not in row["source"] or row["status"] == "rumour", row


def test_a_rate_that_nobody_published_is_not_guessed(catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"bertha-500 has no published bf16_flops_per_s .*--catalog"):
        catalog.chip("bertha-500").flops_per_s("bf16")


def test_links_are_one_way(catalog: Catalog) -> None:
    """NVLink 4 and 5 are sold as 900 and 1,800 GB/s, both directions together."""
    h100, b200 = catalog.system("hgx-h100").scaleup, catalog.system("hgx-b200").scaleup
    assert h100 is not None
    assert b200 is not None
    assert (h100.bytes_per_s, b200.bytes_per_s) == (450e9, 900e9)


def test_finders_forgive_and_suggest(catalog: Catalog) -> None:
    assert catalog.chip("H100 SXM").name == "h100-sxm"
    assert catalog.price("GPT-6_sol").input_usd_per_mtok == 2.0
    with pytest.raises(CatalogError, match=r"chip 'h1000-sxm' is not known; near: h100-sxm"):
        catalog.chip("h1000-sxm")


def test_config_from_disk(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert catalog.config(str(tmp_path)) == catalog.config(str(tmp_path / "config.json")) == {"model_type": "llama"}
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(CatalogError, match="JSON object"):
        catalog.config(str(tmp_path))
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(CatalogError, match="not JSON"):
        catalog.config(str(tmp_path))


@pytest.mark.parametrize("name", ["small.gguf", "model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("size", [4, 5_000_000])
def test_a_file_of_weights_is_no_model_here(catalog: Catalog, tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_bytes(b"GGUF".ljust(size, b"\xff"))
    with pytest.raises(CatalogError, match=rf"{name}: is of weights; give a config\.json, .* or a model of"):
        catalog.config(str(tmp_path / name))


def price_row(**cells: str) -> str:
    row = dict.fromkeys(PRICE_COLUMNS, "") | {
        "provider": "me",
        "model": "mine",
        "input_usd_per_mtok": "1",
        "output_usd_per_mtok": "5",
        "status": "announced",
        "source": "my list",
        "date": "2026-11-01",
    }
    return ",".join((row | cells).values())


def test_a_price_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(",".join(PRICE_COLUMNS) + "\n" + price_row(cached_input_usd_per_mtok="0.1"))
    price = load_catalog([tmp_path]).price("mine")
    assert (price.output_over_input, price.cached_over_input, price.step_over_input) == (5, 0.1, None)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("input_usd_per_mtok", "0"),
        ("input_usd_per_mtok", ""),
        ("output_usd_per_mtok", "-5"),
        ("output_usd_per_mtok", "nan"),
        ("output_usd_per_mtok", "5 USD"),
        ("input_usd_per_mtok", "1000000"),
        ("input_usd_per_mtok", "1e-320"),
        ("cached_input_usd_per_mtok", "-0.1"),
        ("max_input_tokens", "272k"),
        ("max_input_tokens", "9" * 5000),
        ("step_threshold_tokens", "-1"),
        ("step_threshold_tokens", "1" + "0" * 400),
        ("step_threshold_tokens", "200000"),
        ("step_output_usd_per_mtok", "7"),
        ("source", ""),
        ("date", ""),
        ("status", "sure"),
        ("model", ""),
    ],
)
def test_prices_are_checked(tmp_path: Path, cell: str, value: str) -> None:
    (tmp_path / "prices.csv").write_text(",".join(PRICE_COLUMNS) + "\n" + price_row(**{cell: value}))
    with pytest.raises(CatalogError, match=rf"prices\.csv, line 2.*{cell}"):
        load_catalog([tmp_path])


def test_a_step_stands_below_the_longest_input(tmp_path: Path) -> None:
    cells = {"max_input_tokens": "1000", "step_threshold_tokens": "1000", "step_input_usd_per_mtok": "2"}
    (tmp_path / "prices.csv").write_text(",".join(PRICE_COLUMNS) + "\n" + price_row(**cells))
    with pytest.raises(CatalogError, match="step_threshold_tokens 1000 must be below max_input_tokens 1000"):
        load_catalog([tmp_path])


def test_a_level_is_read_or_multiplies(tmp_path: Path) -> None:
    header = "item,figure,value,unit,status,source,date,note"
    (tmp_path / "energy.csv").write_text(f"{header}\nhbm2,multiply_j_per_flop,1,pJ/FLOP,measured,mine,2026,\n")
    with pytest.raises(CatalogError, match=r"energy\.csv, hbm2: one of read_j_per_byte, multiply_j_per_flop"):
        load_catalog([tmp_path])


def test_what_is_quoted_from_memory_or_assumed_says_so() -> None:
    catalog = load_catalog()
    figures = [*catalog.energy.values(), *(f for tier in catalog.tiers.values() for f in tier.figures.values())]
    unchecked = [f for f in figures if "from memory" in f.note or "an assumption" in f.source]
    assert len(unchecked) >= 10
    assert {f.status for f in unchecked} == {"rumour"}
    assert all("unverified" in f.note for f in unchecked)
    assert all(f.status == "rumour" for f in catalog.energy.values())
    written = [model for model in catalog.published.values() if "is written" in model.note]
    assert len(written) >= 10
    assert all("rope theta and norm eps are quoted from memory, unverified" in model.note for model in written)
