"""README and docs name only what exists: tests, files, links, and every case that is to be survived."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    named = set(re.findall(r"\b(test_\w+)\b(?!\.py)", page.read_text()))
    missing = {name for name in named if f"def {name}" not in TESTS and not name.endswith("_")}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert all((page.parent / link).exists() for link in links)
    paths = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.-]+\.(?:py|md|csv|jsonl))\b", text)
    assert all((ROOT / path).exists() for path in paths)


def named_cases(page: str) -> set[str]:
    """The ids in the first cells, with `A116 to A119` and `spec-decode-02, -03` written out."""
    cases: set[str] = set()
    for row in re.findall(r"^\|([^|]*)\|", page, re.MULTILINE):
        prefix, last = "", 0
        for joint, name, number in re.findall(r"(to )?([A-Za-z][A-Za-z0-9-]*?-|A|-)(\d{2,3})", row):
            prefix = prefix if name == "-" else name
            numbers = range(last, int(number) + 1) if joint else [int(number)]
            cases |= {f"{prefix}{n:0{len(number)}}" for n in numbers}
            last = int(number)
    return cases


@pytest.mark.parametrize("name", ["attacks.jsonl", "api-cases.jsonl"])
def test_every_case_has_its_line_on_the_page(name: str) -> None:
    cases = {json.loads(line)["id"] for line in (ROOT / "tests/data/cases" / name).read_text().splitlines()}
    assert not cases - named_cases((ROOT / "docs/robustness.md").read_text())
