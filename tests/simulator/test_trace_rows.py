"""Rows of a trace that no run gets through: bad ones, before a sweep begins, and answers of no token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headway.cli.simulate import simulate

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROWS = "".join(f"2023-11-16 18:15:{second},100,{tokens}\n" for second, tokens in ((40, 3), (41, 0), (42, 2), (43, 0)))
FEW = ("--jobs", "1", "--sweep", "replicas=1,2")


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments)


def test_a_bad_row_stops_a_sweep_before_its_first_point(tmp_path: Path) -> None:
    trace, out = written(tmp_path / "t.csv", AZURE + ROWS + "2023-11-16 18:15:44,many,1\n"), tmp_path / "grid.jsonl"
    result = called("--trace", trace, *FEW, "--out", str(out))
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"Error: {trace}:6: ContextTokens must be a whole number from 1 to 2,147,483,648, not 'many'"
    ]
    assert not out.exists()


def test_of_several_traces_the_bad_one_is_found(tmp_path: Path) -> None:
    good = written(tmp_path / "a.csv", AZURE + ROWS)
    bad = written(tmp_path / "b.csv", AZURE + ROWS + "yesterday,1,1\n")
    result = called("--jobs", "1", "--sweep", f"trace={good},{bad}")
    assert result.exit_code == 1
    assert f"{bad}:6: TIMESTAMP 'yesterday'" in result.output


def test_a_bad_row_that_no_point_comes_to_is_not_looked_for(tmp_path: Path) -> None:
    trace = written(tmp_path / "t.csv", AZURE + ROWS + "2023-11-16 18:15:44,many,1\n")
    assert called("--trace", trace, "--requests", "4", *FEW).exit_code == 0
    assert called("--trace", trace, "--jobs", "1", "--sweep", "requests=2,4").exit_code == 0
    assert ":6: ContextTokens" in called("--trace", trace, "--jobs", "1", "--sweep", "requests=2,5").output
    assert ":6: ContextTokens" in called("--trace", trace, "--requests", "4", "--max-context", "9999", *FEW).output


MOONCAKE = '{"timestamp": 0, "input_length": 10, "output_length": 0, "hash_ids": []}\n'
SESSION = {"id": "s", "bs": 64, "tool_tokens": 0, "system_tokens": 0}
CALL = {"t": 0.0, "m": "m", "in": 100, "out": 0, "h": [1, 2], "it": "h", "st": "", "ty": "n", "api": 1.0, "think": 0.0}


@pytest.mark.parametrize(
    ("text", "empty", "tokens"),
    [(AZURE + ROWS, 2, 7), (MOONCAKE, 1, 1), (json.dumps(SESSION | {"r": [CALL]}) + "\n", 1, 1)],
)
def test_answers_of_no_token_are_taken_as_one_and_counted(text: str, empty: int, tokens: int, tmp_path: Path) -> None:
    trace = written(tmp_path / "trace", text)
    found = json.loads(called("--trace", trace, "--json").output)
    assert (found["empty_answers"], found["output_tokens"]) == (empty, tokens)
    said = called("--trace", trace).output
    assert f"{empty} answer{'s' if empty > 1 else ''} of no token in the trace, taken as one token" in said


def test_where_none_is_empty_nothing_is_said() -> None:
    assert "of no token" not in called("--requests", "2").output
    assert json.loads(called("--requests", "2", "--json").output)["empty_answers"] == 0
