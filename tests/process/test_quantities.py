"""Times and files on the command line: all times take the same units, all files are looked at before the work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headway.cli import main
from headway.cli.out_files import OutFile
from headway.cli.quantities import NamedPath, Seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("500ms", 0.5),
        ("20 us", 2e-5),
        ("1.5min", 90),
        ("2h", 7200),
        ("1d", 86400),
    ],
)
def test_times_have_units_and_bare_numbers_are_seconds(text: str, seconds: float) -> None:
    assert Seconds().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "5m", "ms", "1e9", "12d", "1,5", "５ parsecs"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Seconds().convert(text, None, None)


def options(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from options(inner, f"{path} {name}")
    else:
        yield from ((f"{path} {param.name}", param) for param in command.params)


OPTIONS = dict(options(main))


def test_every_option_that_is_a_time_takes_units() -> None:
    """By its name or by its help."""
    named = ("_s", "gap", "latency", "ttl", "budget", "mtbf", "mttr", "round_trip", "slo_ttft", "slo_tpot", "slo_e2e")
    times = [name for name in OPTIONS if name.endswith(named) and "tokens_per_s" not in name]
    assert len(times) > 15
    assert [name for name in times if not isinstance(OPTIONS[name].type, Seconds)] == []


WRITTEN = {name: param for name, param in OPTIONS.items() if isinstance(param.type, OutFile)}


def test_every_file_that_is_written_is_one_that_is_looked_at() -> None:
    paths = {name for name, param in OPTIONS.items() if isinstance(param.type, click.Path)}
    assert all(isinstance(OPTIONS[name].type, NamedPath) for name in paths)
    of_files = {name for name in paths if name.endswith((" out", " chart", " html", "_out", " step_log"))}
    assert of_files - {" bench out"} == set(WRITTEN)  # That one is a directory.


@pytest.mark.parametrize("name", WRITTEN)
def test_what_cannot_be_written_is_said_before_the_work(name: str, tmp_path: Path) -> None:
    param = WRITTEN[name]
    assert isinstance(param.type, OutFile)
    ending = param.type.endings[0] if param.type.endings else ".x"
    (tmp_path / f"folder{ending}").mkdir()
    (tmp_path / f"pipe{ending}").symlink_to("/dev/null")
    (tmp_path / "file").write_text("")
    places = [f"none/a{ending}", f"folder{ending}", f"pipe{ending}", f"file/a{ending}", f"{'n' * 300}{ending}"]
    if param.type.endings:
        places += ["a.pdf", "a"]
    command, required = name.split()[:-1], ["model", *(() if "plan" not in name else ("--slo", "1"))]
    for place in places:
        result = CliRunner().invoke(main, [*command, *required[:1], param.opts[0], str(tmp_path / place)])
        [line] = result.stderr.splitlines()
        assert result.exit_code == 2
        assert line.startswith(f"headway: Invalid value for '{param.opts[0]}': "), line
    assert sorted(os.listdir(tmp_path)) == sorted([f"folder{ending}", f"pipe{ending}", "file"])


def test_a_place_that_is_read_only_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "a.csv"
    kept.write_text("mine")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(click.BadParameter, match="Permission denied"):
        OutFile(".csv").convert(str(kept), None, None)
    with pytest.raises(click.BadParameter, match="No such file or directory"):
        OutFile(".csv").convert("/proc/a.csv", None, None)
    assert kept.read_text() == "mine"


def test_two_options_do_not_name_one_file(tmp_path: Path) -> None:
    for first, second in (("--trace-out", "--trace"), ("--trace", "--trace-out"), ("--trace-out", "--replay")):
        (tmp_path / "a.json").write_text("{}")
        result = CliRunner().invoke(
            main, ["simulate", first, str(tmp_path / "a.json"), second, str(tmp_path / "." / "a.json")]
        )
        assert result.exit_code == 2
        assert "too" in result.stderr.split()
        assert (tmp_path / "a.json").read_text() == "{}"
