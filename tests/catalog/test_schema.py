"""No provenance, a value that cannot be, a missing field, a wrong unit: refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.catalog import CatalogError, load_catalog
from headway.catalog.table import COLUMNS
from headway.catalog.units import BYTES, BYTES_PER_S, FLOPS_PER_S, LINK_BYTES_PER_S

HEADER = ",".join(COLUMNS)
CHIP = [
    ["mine", "vendor", "Me", "text"],
    ["mine", "kind", "gpu", "text"],
    ["mine", "hbm_type", "HBM3", "text"],
    ["mine", "hbm_bytes", "80", "GB"],
    ["mine", "hbm_bytes_per_s", "3", "TB/s"],
    ["mine", "bf16_flops_per_s", "1", "PFLOP/s"],
]


def write(
    directory: Path, rows: list[list[str]], tail: str = "announced,my lab,2026-11,", name: str = "chips.csv"
) -> Path:
    (directory / name).write_text("\n".join([HEADER, *(",".join(row) + "," + tail for row in rows)]) + "\n")
    return directory


def with_cell(row: int, column: int, text: str) -> list[list[str]]:
    rows = [list(r) for r in CHIP]
    rows[row][column] = text
    return rows


def test_a_chip_of_ones_own(tmp_path: Path) -> None:
    catalog = load_catalog([write(tmp_path, CHIP)])
    chip = catalog.chip("MINE")
    assert (chip.hbm_bytes, chip.hbm_bytes_per_s, chip.bf16_flops_per_s) == (80e9, 3e12, 1e15)
    assert chip.figures["hbm_bytes"].status == "announced"
    assert "h100-sxm" in catalog.chips


def test_an_overlay_changes_one_figure_and_what_depends_on_it(tmp_path: Path) -> None:
    catalog = load_catalog([write(tmp_path, [["h100-sxm", "hbm_bytes", "94", "GB"]])])
    assert catalog.system("hgx-h100").chip.hbm_bytes == 94e9
    assert catalog.chip("h100-sxm").hbm_bytes_per_s == 3.35e12


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (with_cell(4, 2, "0"), ("line 6", "TB/s", "above 0")),
        (with_cell(5, 2, "-1"), ("line 7", "PFLOP/s", "above 0")),
        (with_cell(3, 2, "nan"), ("line 5", "GB", "finite")),
        (with_cell(3, 2, "inf"), ("line 5", "GB", "finite")),
        (with_cell(3, 2, "eighty"), ("line 5", "not a number", "GB")),
        (with_cell(3, 2, ""), ("line 5", "not a number")),
        (with_cell(3, 3, "GB/s"), ("line 5", "GB/s", "does not fit", "GiB")),
        (with_cell(4, 3, "GB"), ("line 6", "does not fit", "GB/s")),
        (with_cell(5, 3, "GB/s"), ("line 7", "does not fit")),
        (with_cell(3, 3, "Gib"), ("line 5", "does not fit")),
        (with_cell(3, 3, "B"), ("line 5", "80 B", "not plausible")),
        (with_cell(4, 3, "B/s"), ("line 6", "not plausible")),
        (with_cell(3, 1, "hbm_gb"), ("line 5", "hbm_gb", "hbm_bytes")),
        (with_cell(3, 0, ""), ("line 5", "no item")),
        ([*CHIP, CHIP[3]], ("line 8", "twice")),
        (CHIP[:3] + CHIP[4:], ("chip mine", "hbm_bytes", "missing")),
        (CHIP[1:], ("chip mine", "vendor", "missing")),
    ],
)
def test_refusals_name_file_line_and_unit(tmp_path: Path, rows: list[list[str]], words: tuple[str, ...]) -> None:
    with pytest.raises(CatalogError) as caught:
        load_catalog([write(tmp_path, rows)])
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tail", "word"),
    [
        ("certain,my lab,2026-11,", "status"),
        (",my lab,2026-11,", "status"),
        ("announced,,2026-11,", "source"),
        ("announced,my lab,,", "date"),
        ("announced,my lab,2026-13,", "date"),
        ("announced,my lab,last week,", "date"),
        ("announced,my lab,2026-11", "7 cells"),
    ],
)
def test_every_figure_needs_its_provenance(tmp_path: Path, tail: str, word: str) -> None:
    with pytest.raises(CatalogError, match=rf"chips\.csv, line 2.*{word}"):
        load_catalog([write(tmp_path, CHIP, tail)])


def test_no_such_directory_and_no_csv(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="no such directory"):
        load_catalog([tmp_path / "nothing"])
    (tmp_path / "chips.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogError, match="UTF-8"):
        load_catalog([tmp_path])
    (tmp_path / "chips.csv").write_text("a,b\n1,2\n")
    with pytest.raises(CatalogError, match="line 1: the columns must be item,figure"):
        load_catalog([tmp_path])


def test_names_are_told_apart_as_the_finders_do(tmp_path: Path) -> None:
    write(tmp_path, [["H100_SXM", "hbm_bytes", "94", "GB"]])
    with (tmp_path / "chips.csv").open("a") as table:
        table.write("\n")  # An empty line is none.
    write(tmp_path, [["box", "chip", "H100-SXM", "text"]], name="systems.csv")
    with pytest.raises(CatalogError, match="system box: scaleup_chips is missing"):
        load_catalog([tmp_path])
    write(tmp_path, [["HGX H100", "scaleup_chips", "4", "chips"]], name="systems.csv")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "Qwen3_8B.json").write_text('{"model_type": "mine"}')
    catalog, plain = load_catalog([tmp_path]), load_catalog()
    assert (catalog.chips.keys(), catalog.systems.keys()) == (plain.chips.keys(), plain.systems.keys())
    assert catalog.system("hgx-h100").scaleup_chips == 4
    assert catalog.system("hgx-h100").chip.hbm_bytes == 94e9
    assert catalog.configs.keys() == plain.configs.keys()
    assert catalog.config("qwen3-8b") == {"model_type": "mine"}


def test_a_directory_with_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(CatalogError, match=r"there is nothing in it to read; it may hold chips\.csv, systems\.csv"):
        load_catalog([tmp_path])
    (write(tmp_path, CHIP) / "measured.csv").write_text("")
    assert "mine" in load_catalog([tmp_path]).chips


@pytest.mark.parametrize(
    ("name", "table"), [("chip.csv", "chips.csv"), ("Systems.csv", "systems.csv"), ("price.csv", "prices.csv")]
)
def test_a_table_by_nearly_its_name(tmp_path: Path, name: str, table: str) -> None:
    (write(tmp_path, CHIP) / name).write_text("")
    with pytest.raises(CatalogError, match=rf"{name} is not read; call it {table}, or by a name less like it"):
        load_catalog([tmp_path])


def test_a_chip_that_no_system_has(tmp_path: Path) -> None:
    catalog = load_catalog([write(tmp_path, CHIP)])
    with pytest.raises(CatalogError, match=r"'Mine' is a chip that no system has: give it one in a systems\.csv"):
        catalog.system("Mine")


def test_a_system_needs_its_chip(tmp_path: Path) -> None:
    rows = [["box", "chip", "h1000", "text"], ["box", "scaleup_chips", "8", "chips"]]
    with pytest.raises(CatalogError, match="system box: its chip 'h1000' is not in the catalog"):
        load_catalog([write(tmp_path, rows, name="systems.csv")])


@given(st.integers(1, 4000))
def test_gb_is_not_gib(n: int) -> None:
    gb, gib = BYTES.to_si(str(n), "GB", ""), BYTES.to_si(str(n), "GiB", "")
    assert gb == n * 10**9
    assert gib == n * 2**30


@given(st.integers(10, 100_000))
def test_bits_are_not_bytes(n: int) -> None:
    assert BYTES_PER_S.to_si(str(n), "Gbit/s", "") * 8 == BYTES_PER_S.to_si(str(n), "GB/s", "") == n * 1e9


def test_a_link_says_whether_it_counts_one_direction_or_both() -> None:
    one = LINK_BYTES_PER_S.to_si("900", "GB/s one-way", "")
    assert one == LINK_BYTES_PER_S.to_si("1800", "GB/s both-ways", "") == 900e9
    assert LINK_BYTES_PER_S.to_si("400", "Gbit/s one-way", "") == 50e9
    with pytest.raises(CatalogError, match="one-way"):
        LINK_BYTES_PER_S.to_si("900", "GB/s", "here")


@given(st.floats())
def test_whatever_is_accepted_is_positive_and_finite(value: float) -> None:
    try:
        si = FLOPS_PER_S.to_si(repr(value), "TFLOP/s", "")
    except CatalogError:
        return
    assert 0 < si < float("inf")
