"""`headway bench` over real sockets, and its mistakes in one line."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from headway.bench.results import read_records, read_run
from headway.cli.bench import bench, report
from headway.cli.bench_key import api_key
from headway.cli.one_line import OneLineGroup
from tests.bench.live import OVERHEAD, Behave, live, obliging, silent
from tests.bench.scripted import event

_MAIN = """
from headway.cli.bench import bench
from headway.cli.one_line import OneLineGroup
group = OneLineGroup("headway")
group.add_command(bench)
group.main()
"""


def slow(body: dict[str, Any]) -> list[bytes | float]:
    return [0.01, *obliging(body)]


def failing_every_other() -> Behave:
    """An error in every other answer of those that are longer than a probe's."""
    numbers = count()

    def behave(body: dict[str, Any]) -> list[bytes | float]:
        is_bad = body["max_tokens"] > 1 and next(numbers) % 2 == 0
        return [event({"error": {"message": "out of luck"}})] if is_bad else obliging(body)

    return behave


def headway(*arguments: Any) -> Result:
    group = OneLineGroup("headway")
    group.add_command(bench)
    group.add_command(report)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPENAI_API_KEY", raising=False)
        return CliRunner().invoke(group, [str(argument) for argument in arguments])


def small(url: str, out: Path, *more: Any) -> Result:
    options = ("--requests", 6, "--input-tokens", 20, "--output-tokens", 5, "--max-lateness-s", 10)
    return headway("bench", url, *options, "--out", out, *more)


def test_a_run_is_measured_kept_and_reported(tmp_path: Path) -> None:
    with live() as server:
        result = small(
            server.url, tmp_path / "r", "--concurrency", "1,2", "--slo", "e2e=60s", "--label", "toy", "--json"
        )
        assert (result.exit_code, result.stderr.count("\n")) == (0, 1), result.output
        prompts = [len(body["messages"][0]["content"].split()) + OVERHEAD for body in server.bodies[2:]]
    runs = [json.loads(line) for line in result.stdout.splitlines()]
    assert [run["summary"]["outcomes"] for run in runs] == [{"ok": 6}] * 2
    assert sorted(prompts) == [20] * 12 + [64] * 8, "of the runs, and of their warm-ups"
    kept = read_run(tmp_path / "r" / "concurrency-2")
    assert (kept.label, kept.prompts["overhead_tokens"], kept.summary.wrong_prompt_length) == ("toy", OVERHEAD, 0)
    assert kept.prompts["tokenizer"] == "the server's /tokenize"
    assert {record.output_tokens for record in read_records(tmp_path / "r" / "concurrency-2")} == {5}
    tables = headway("report", tmp_path / "r")
    assert tables.exit_code == 0
    assert "concurrency 2" in tables.output
    assert "from sending a request" in tables.output


def test_the_same_prompt_seed_sends_the_same_and_another_does_not(tmp_path: Path) -> None:
    sent = []
    with live() as server:
        for number, seed in enumerate((7, 7, 8)):
            assert small(server.url, tmp_path / str(number), "--prompt-seed", seed).exit_code == 0
            sent.append(sorted(body["messages"][0]["content"] for body in server.bodies))
            server.bodies.clear()
    assert sent[0] == sent[1]
    assert not set(sent[0]) & set(sent[2])


def test_a_late_load_generator_exits_with_3(tmp_path: Path) -> None:
    with live() as server:
        result = small(server.url, tmp_path / "r", "--max-lateness-s", "1e-9")
    assert result.exit_code == 3
    assert "the load generator" in " ".join(result.output.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_keeps_what_is_done(tmp_path: Path, number: signal.Signals) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 0, "input_length": 20, "output_length": n, "hash_ids": []} for n in (5, 5, 200)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with live(silent) as server:
        options = ["--trace", str(trace), "--concurrency", "1", "--out", str(tmp_path / "r")]
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "bench", server.url, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"COLUMNS": "200"},
        )
        # One after the other: when the last is sent, the others are done.
        while not any(body["max_tokens"] == 200 for body in server.bodies):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    kept = read_run(tmp_path / "r")
    assert kept.workload["trace_sha256"] == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert (kept.interrupted, kept.summary.outcomes) == (True, {"ok": 2, "interrupted": 1})
    assert b"interrupted" in output


@pytest.mark.parametrize(
    ("arguments", "exit_code", "names"),
    [
        (["ftp://h"], 2, "URL"),
        (["127.0.0.1:1"], 1, "http://127.0.0.1:1/v1/models: Connection refused"),
        (["h", "--concurrency", "1", "--rate", "2"], 2, "--rate"),
        (["h", "--concurrency", "none"], 2, "--concurrency"),
        (["h", "--concurrency", "0"], 2, "--concurrency"),
        (["h", "--concurrency", "2.5"], 2, "must be a whole number"),
        (["h", "--rate", "nan"], 2, "--rate"),
        (["h", "--rate", "1,1"], 2, "--rate"),
        (["h", "--slo", "fast"], 2, "ttft=2s"),
        (["h", "--extra", "{"], 2, "--extra"),
        (["h", "--extra", "[]"], 2, "--extra"),
        (["h", "--extra", '{"stream": false}'], 2, "--extra"),
        (["h", "--input-tokens", "many"], 2, "many"),
        (["h", "--agents", "nobody"], 2, "nobody"),
        (["h", "--agents", "tracelab", "--shared-tokens", "999999"], 2, "--shared-tokens must be"),
        (["h", "--trace", "nowhere.jsonl"], 1, "nowhere.jsonl"),
        (["h", "--duration-s", "0"], 2, "--duration-s"),
        (["h", "--label", "a\udcff"], 2, "--label: 'a?' has bytes that are not UTF-8"),
        (["h", '--extra={"a\udcff": 1}'], 2, "--extra: "),
        (["a..b"], 2, "URL: 'a..b' is not the name of a host"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: list[str], exit_code: int, names: str) -> None:
    result = headway("bench", *arguments, "--out", tmp_path / "r")
    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("headway: ")
    assert names in result.stderr
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["HEADWAY_API_KEY", "OPENAI_API_KEY"])
@pytest.mark.parametrize("key", ["k\u00e9y", "a\nb", " a", "\udcff"])
def test_a_key_that_no_header_can_carry_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, key: str
) -> None:
    with pytest.raises(click.UsageError, match=f"^{name}: a key has only ASCII") as refused:
        api_key({name: key})
    assert "\n" not in str(refused.value)
    assert api_key({"HEADWAY_API_KEY": "", "OPENAI_API_KEY": "k-1"}) == "k-1"
    monkeypatch.setenv("HEADWAY_API_KEY", "k\u00e9y")
    result = headway("bench", "h", "--out", tmp_path / "r")
    assert (result.exit_code, result.stderr.count("\n"), (tmp_path / "r").exists()) == (2, 1, False)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    result = headway("bench", "h", "--out", tmp_path)
    assert (result.exit_code, (tmp_path / "kept").read_text()) == (2, "mine")
    assert "not an empty directory" in result.stderr


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--tokenizer", "none", "there is no such file"),
        ("--tokenizer", "", "there is no tokenizer.json in it"),
        ("--model", "nope", "has toy"),
    ],
)
def test_what_the_server_or_a_file_does_not_have_is_one_line(
    tmp_path: Path, option: str, value: str, says: str
) -> None:
    with live() as server:
        result = small(server.url, tmp_path / "r", option, value if option == "--model" else tmp_path / value)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"headway: {option}")
    assert says in result.stderr


def test_a_sweep_that_an_slo_stops_says_so_in_the_terminal_the_notes_and_the_report(tmp_path: Path) -> None:
    with live(slow) as server:
        result = small(server.url, tmp_path / "r", "--concurrency", "1,2,4", "--slo", "ttft=1ms,tpot=1h")
    why = "stopped after concurrency 1: 0% within ttft <= 1 ms, tpot <= 3600 s, 90% needed; 2, 4 not run"
    shown = " ".join(result.stdout.split())
    assert (result.exit_code, why in shown) == (0, True), result.output
    assert "ttft <= 1 ms, tpot <=" in shown.partition("stopped after")[0], "the limits stand beside the goodput"
    (kept,) = (tmp_path / "r").glob("*/run.json")
    assert json.loads(kept.read_text())["notes"] == [why]
    assert why in " ".join(headway("report", tmp_path / "r").stdout.split())


def test_a_server_that_fails_half_of_it_gives_no_result(tmp_path: Path) -> None:
    with live(failing_every_other()) as server:
        result = small(server.url, tmp_path / "r", "--json", "--warmup", "0")
        again = small(server.url, tmp_path / "s", "--json", "--warmup", "0", "--max-failed", "0.5")
    assert (result.exit_code, again.exit_code) == (3, 0)
    assert "50% of the requests failed (allowed 5%)" in result.stderr


def test_agents_stay_within_the_servers_context(tmp_path: Path) -> None:
    options = (
        "--sessions",
        "2",
        "--requests",
        "2",
        "--duration-s",
        "1",
        "--concurrency",
        "2",
        "--max-lateness-s",
        "10",
    )
    with live() as server:
        result = headway("bench", server.url, "--agents", "tracelab", *options, "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "the server's context of 4,096 tokens; --max-context N" in " ".join(result.stdout.split())
    records = read_records(tmp_path / "r")
    assert records
    assert all(record.asked_input_tokens + record.asked_output_tokens <= 4096 for record in records)
    assert read_run(tmp_path / "r").workload["max_context"] == 4096


def test_help_tells_both_names_of_keys_and_each_default_once() -> None:
    shown = headway("bench", "--help").output
    assert all(name in shown for name in ("HEADWAY_API_KEY ", "HEADWAY_API_KEYS", "OPENAI_API_KEY"))
    assert '""' not in shown
    assert "2 for a mistake in the command line" in " ".join(shown.split())
