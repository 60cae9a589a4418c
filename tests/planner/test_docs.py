"""The chapters of docs/plan show what the commands print: a stale page fails here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from headway.cli.plan import plan

DOCS = Path(__file__).parents[2] / "docs"


def _builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_build"] = module
    spec.loader.exec_module(module)
    return module


BUILDER = _builder()


@pytest.mark.parametrize("page", BUILDER.PAGES, ids=lambda page: page.stem)
def test_a_page_is_fresh(page: Path) -> None:
    text = page.read_text()
    assert BUILDER.built(text) == text, "run: python docs/build.py"


def test_every_question_has_its_chapter() -> None:
    chapters = {page.stem for page in BUILDER.PAGES} - {"README"}
    assert chapters >= set(plan.commands) - {"list", "fit", "validate"}
    index = (DOCS / "plan/README.md").read_text()
    assert all(f"({name}.md)" in index for name in chapters)


def test_a_stale_number_is_seen(tmp_path: Path) -> None:
    fresh = (DOCS / "plan/kv.md").read_text()
    for stale in (fresh.replace("27.06", "27.07"), fresh.replace("516.1 kB", "516.2 kB")):
        assert stale != fresh
        page = tmp_path / "kv.md"
        page.write_text(stale)
        checked = CliRunner().invoke(BUILDER.main, ["--check", str(page)])
        assert checked.exit_code == 1
        assert "stale: kv.md" in checked.stderr
        assert page.read_text() == stale
        assert CliRunner().invoke(BUILDER.main, [str(page)]).exit_code == 0
        assert page.read_text() == fresh


def test_a_page_whose_command_fails_is_not_built() -> None:
    with pytest.raises(SystemExit, match="model 'lama' is not known"):
        BUILDER.built("```console\n$ headway plan model lama\n```\n")


def test_files_are_shown_and_charts_drawn_in_the_pages_folder(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    chart = "headway plan kv llama-3.1-8b --chart kv.svg"
    page.write_text(f"```console\n$ cat own.csv\nstale\n```\n\n<!-- chart {chart} -->\n![cache](kv.svg)\n")
    (tmp_path / "own.csv").write_text("item,figure\n")
    assert CliRunner().invoke(BUILDER.main, ["--check", str(page)]).exit_code == 1
    assert not (tmp_path / "kv.svg").exists()
    assert CliRunner().invoke(BUILDER.main, [str(page)]).exit_code == 0
    assert "$ cat own.csv\nitem,figure\n```\n" in page.read_text()
    assert (tmp_path / "kv.svg").read_text().startswith("<svg")
