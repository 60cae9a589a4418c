"""docs/robustness.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "robustness.md").read_text()
    named = set(re.findall(r"`(test_\w+\.py)::(\w+)`", page))
    files: dict[str, str] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        files[path.name] = files.get(path.name, "") + path.read_text()
    assert len(named) > 100
    for file, name in sorted(named):
        assert re.search(rf"^(async )?def {name}\(|^{name} = ", files.get(file, ""), re.MULTILINE), f"{file}::{name}"
