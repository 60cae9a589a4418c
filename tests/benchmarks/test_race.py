"""Turns, absent and lost engines, and the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.serving.child import EngineError
from benchmarks.serving.jobs import JOBS, WARM_UP, Job
from benchmarks.serving.measurement import Answer
from benchmarks.serving.peers import FAMILIES, Engine, NotInstalled, Setting, engines
from benchmarks.serving.race import Race, Results
from benchmarks.serving.report import as_json

from tests.process.tiny_model import write_tiny_model

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "engines.py"
SMALL = [JOBS["A1"].shrunk(32), JOBS["B32"].shrunk(32)]


class Scripted:
    """Answers at once; the diary has what all engines did."""

    def __init__(self, name: str, diary: list[str], *, starts: bool = True) -> None:
        self._name, self._diary, self._starts = name, diary, starts

    pid = 1

    async def start(self) -> None:
        self._diary.append(f"start {self._name}")
        if not self._starts:
            raise EngineError("no memory")

    async def run(self, job: Job, prompts: Sequence[Sequence[int]]) -> tuple[list[Answer], float | None]:
        if job is not WARM_UP:
            self._diary.append(f"{job.name} {self._name}")
        return [Answer(0.0, 1.0, 2.0, len(prompt), job.output_tokens) for prompt in prompts], None

    async def stop(self) -> None:
        self._diary.append(f"stop {self._name}")


def missing(setting: Setting) -> Engine:  # noqa: ARG001
    raise NotInstalled("nothing there")


async def raced(tmp_path: Path, diary: list[str], **more: object) -> tuple[Race, Results]:
    (tmp_path / "config.json").write_text('{"vocab_size": 100}')
    makers = {name: lambda _, name=name: Scripted(name, diary) for name in ("headway", "a")} | more
    setting = Setting(tmp_path, is_default_model=False, peers=None, threads=1)
    race = Race(setting, makers, SMALL, runs=2, began=lambda _: None, done=lambda _: None)
    results = Results()
    await race.run(results)
    return race, results


async def test_engines_take_turns_and_one_is_stopped_before_the_next_starts(tmp_path: Path) -> None:
    diary: list[str] = []
    await raced(tmp_path, diary)
    turn = ["start {0}", "{1} {0}", "stop {0}"]
    order = [(engine, job.name) for _ in range(2) for job in SMALL for engine in ("headway", "a")]
    assert diary == [line.format(*pair) for pair in order for line in turn]


async def test_absent_and_lost_engines_are_reported_and_the_others_go_on(tmp_path: Path) -> None:
    diary: list[str] = []
    lost = lambda _: Scripted("lost", diary, starts=False)  # noqa: E731
    race, results = await raced(tmp_path, diary, absent=missing, lost=lost)
    report = json.loads(json.dumps(as_json(results, race.engines, race.jobs, 1)))["engines"]
    assert report["absent"] == {"status": "not installed: nothing there", "jobs": {}}
    assert report["lost"] == {"status": "failed: no memory", "jobs": {}}
    assert (diary.count("start lost"), diary.count("stop lost")) == (1, 1)
    assert report["a"]["status"] == "ok"
    assert report["a"]["jobs"]["B32"]["runs"] == 2
    assert report["a"]["jobs"]["B32"]["ratio_to_headway"] == 1.0


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"headway", "hf"}))
def test_peers_that_are_not_there_say_so(family: str, tmp_path: Path) -> None:
    for peers in (None, tmp_path):
        setting = Setting(tmp_path, is_default_model=True, peers=peers, threads=1)
        for make in engines([family]).values():
            with pytest.raises(NotInstalled):
                make(setting)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=200)


MISTAKES = [
    ("--engines", "nosuch"),
    ("--jobs", "A1,Z9"),
    ("--jobs", ","),
    ("--runs", "0"),
    ("--model", "/nowhere"),
]


@pytest.mark.parametrize("arguments", MISTAKES)
def test_mistakes_get_one_error(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_headway_beside_an_absent_peer(tmp_path: Path) -> None:
    """The whole way: a server is started, asked and stopped; the numbers of tokens are right."""
    model = write_tiny_model(tmp_path / "model")
    options = ("--model", str(model), "--threads", "1", "--shrink", "16", "--headway", "--kv-bytes 32MiB")
    done = run("--json", "--jobs", "A8", "--engines", "headway,llamacpp-q4_0", "--peers", str(tmp_path), *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    result = report["engines"]["headway"]["jobs"]["A8"]
    assert (result["right"], result["wrong"], result["failed"]) == (32, 0, 0)
    assert result["ratio_to_headway"] == 1.0
    assert report["engines"]["llamacpp-q4_0"]["status"].startswith("not installed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_done_and_leaves_no_engine(tmp_path: Path, number: signal.Signals) -> None:
    model = write_tiny_model(tmp_path / "model")
    options = ["--engines", "headway", "--jobs", "A1", "--runs", "1000", "--shrink", "16", "--threads", "1"]
    command = [sys.executable, str(SCRIPT), "--json", "--model", str(model), "--headway", "--kv-bytes 32MiB", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(number)
        output, rest = process.communicate(timeout=100)
    assert first.startswith("run 1  A1  headway"), first + rest
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert json.loads(output)["engines"]["headway"]["jobs"]["A1"]["right"] >= 8
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(model).encode() in _read(path)]
    assert not left


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
