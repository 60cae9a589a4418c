"""An option that a workload or a load does not read is refused, in both commands that make requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headway.cli import main
from headway.cli.workload_options import _OPTIONS

TRACE = ("--trace", str(Path(__file__).parents[1] / "data" / "traces" / "azure_conv.csv"))
AGENTS = ("--agents", "coding_agent")
CHAT = ("--agents", "chat")
CLOSED = ("--concurrency", "2")
VALUES = {
    "--trace": TRACE[1],
    "--agents": AGENTS[1],
    "--requests": "2",
    "--sessions": "2",
    "--input-tokens": "10",
    "--output-tokens": "10",
    "--prefixes": "2",
    "--prefix-tokens": "64",
    "--arrivals": "constant",
    "--cv": "2",
    "--jitter-s": "1ms",
    "--shared-tokens": "64",
    "--turns": "3",
    "--calls-per-turn": "2-4",
    "--think-time": "40s~1.2",
    "--tool-time": "0.5",
    "--first-tokens": "100",
    "--message-tokens": "60~1",
    "--tool-tokens": "800",
    "--answer-tokens": "250~0.8",
    "--thinking-tokens": "100-900",
    "--compact-at": "9000",
    "--sub-agents": "0.1",
    "--fork": "",
    "--think-by-hour": "office",
    "--week-begins": "3",
    "--max-context": "8000",
    "--seed": "1",
    "--rate": "2",
    "--speed": "2",
}
OF_LONE_REQUESTS = {"--input-tokens", "--output-tokens", "--prefix-tokens"}
OF_ARRIVALS = {"--rate", "--arrivals", "--think-by-hour"}
OF_ALL = {"--requests", "--max-context", "--seed"}
OF_TOOLS = {"--tool-time", "--tool-tokens", "--sub-agents"}
OF_SESSIONS = {"--sessions", "--shared-tokens", "--turns", "--calls-per-turn", "--think-time", "--first-tokens"}
OF_SESSIONS |= {"--message-tokens", "--answer-tokens", "--thinking-tokens", "--compact-at"}
OF_AGENTS = OF_SESSIONS | OF_TOOLS
READ = {
    (): OF_ALL | OF_LONE_REQUESTS | OF_ARRIVALS | {"--trace", "--agents", "--speed"},
    CLOSED: OF_ALL | OF_LONE_REQUESTS | {"--trace", "--agents", "--jitter-s"},
    AGENTS: OF_ALL | OF_AGENTS | OF_ARRIVALS | {"--speed"},
    (*AGENTS, *CLOSED): OF_ALL | OF_AGENTS,
    CHAT: OF_ALL | OF_SESSIONS | OF_ARRIVALS | {"--speed"},
    TRACE: OF_ALL | {"--speed"},
    (*TRACE, *CLOSED): OF_ALL,
}
"""Workload and load → the options that change something there, by themselves."""


def called(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [command, *(("127.0.0.1:1",) if command == "bench" else ()), *arguments])


def test_every_option_of_a_workload_is_looked_at() -> None:
    assert {f"--{name.replace('_', '-')}" for name in _OPTIONS} <= set(VALUES)


@pytest.mark.parametrize("command", ["simulate", "bench"])
@pytest.mark.parametrize("workload", READ, ids=" ".join)
def test_an_option_is_read_or_refused(command: str, workload: tuple[str, ...], tmp_path: Path) -> None:
    """`simulate` ends at a router that there is not, `bench` at a server."""
    small = () if command == "bench" else ("--router", "none")
    out = ("--out", str(tmp_path / "r" if command == "bench" else tmp_path / "r.parquet"))
    for option, value in VALUES.items():
        if option in workload:
            continue
        result = called(command, *workload, option, *([value] if value else []), *small, *out)
        [line] = result.stderr.splitlines()
        if option in READ[workload]:
            assert ("router must be" in line) or ("Connection refused" in line), line
        else:
            assert result.exit_code == 2
            assert line.startswith("headway: --"), line
            assert option in line.split(": ")[1].split(", ") or option in ("--trace", "--agents"), line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--arrivals", "gamma", "--cv", "2"), "router must be"),
        (("--agents", "tracelab", "--arrivals", "gamma", "--cv", "2"), "router must be"),
        (("--agents", "tracelab", "--sub-agents", "0.1", "--fork"), "router must be"),
        (("--think-by-hour", "office", "--week-begins", "3"), "router must be"),
        (("--prefix-tokens", "64", "--prefixes", "2"), "router must be"),
        (("--fork", "--sessions", "3"), "--sessions, --fork: only with --agents PRESET"),
        ((*CHAT, "--calls-per-turn", "3", "--tool-time", "1s~1", "--sub-agents", "0.1"), "router must be"),
        ((*CHAT, "--tool-time", "1s"), "--tool-time: with --agents chat only with --calls-per-turn N"),
        ((*CHAT, "--think-time", "12d"), "of 0 to 1,000,000 seconds"),
        ((*CHAT, "--turns", "5001"), "of 1 to 5,000 whole ones"),
        ((*CHAT, "--answer-tokens", "5~6"), "of 1 to 1,000,000 whole tokens"),
        ((*CHAT, "--compact-at", "128001"), "--compact-at must be between 16 and 128,000, the context, not 128,001"),
        ((*CHAT, "--compact-at", "15"), "16<=x<=1000000"),
        ((*CHAT, "--compact-at", "1000", "--shared-tokens", "501"), "--shared-tokens must be between 0 and 500, half"),
        ((*AGENTS, "--fork"), "--fork: only with --sub-agents SHARE"),
        ((*AGENTS, "--input-tokens", "1"), "--input-tokens: not with --trace or --agents"),
        (("--arrivals", "gamma", "--cv", "1e-300"), "0.001<=x<=1000"),
        (("--cv", "2"), "--cv: only with --arrivals gamma"),
        ((*TRACE, "--cv", "2"), "--cv: not with --trace, which has times of its own"),
        (("--speed", "2", *CLOSED), "--speed: not with --concurrency"),
        (("--mttr", "1min"), "--mttr: only with --mtbf"),
        (("--trace-limit", "5"), "--trace-limit: only with --trace-out"),
        (("--jobs", "5"), "--jobs: only with --sweep"),
        (("--with", "chunk=5"), "--with: only with --replay"),
        (("--shared-tokens", "20000", "--agents", "coding_agent"), "--shared-tokens must be between 0 and 16,384"),
        (("--input-tokens", "999999999"), "of 1 to 1,000,000 whole tokens"),
        (("--output-tokens", "5-1000001"), "of 1 to 1,000,000 whole tokens"),
        (("--input-tokens", "1000~9"), "log-deviation of at most 5"),
        (("--input-tokens", "10.5"), "whole tokens"),
        (("--prefix-tokens", "1000001"), "0<=x<=1000000"),
    ],
)
def test_preconditions_of_simulate(arguments: tuple[str, ...], said: str) -> None:
    result = called("simulate", *arguments, "--router", "none")
    [line] = result.stderr.splitlines()
    assert said in line
    assert result.exit_code in (1, 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--slo-share", "0.5"), "--slo-share: only with --slo LIMITS"),
        (("--think", "2"), "--think: only with --trace, --agents or --concurrency"),
        (("--session-field", "user"), "--session-field: only with --trace or --agents"),
        (("--tokenizer", "t", "--no-tokenizer"), "--no-tokenizer: not with --tokenizer"),
    ],
)
def test_preconditions_of_bench(arguments: tuple[str, ...], said: str) -> None:
    result = called("bench", *arguments)
    [line] = result.stderr.splitlines()
    assert said in line
    assert result.exit_code == 2


def test_a_sweep_is_checked_at_its_points() -> None:
    few = ("simulate", "--requests", "2", "--jobs", "1", "--json")
    assert called(*few, "--jitter-s", "0", "--sweep", "concurrency=1,2").exit_code == 0
    [line] = called(*few, "--jitter-s", "0", "--sweep", "rate=1,2").stderr.splitlines()
    assert "--jitter-s: only with --concurrency" in line
