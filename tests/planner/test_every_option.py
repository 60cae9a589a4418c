"""Every option of every question changes its answer: what it does not read it does not take."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headway.cli.plan import plan

MODEL = "gpt-oss-120b"
"""Of experts, so that every number format matters."""
BASE = {
    "implied": ("gpt-6-sol",),
    "best": (MODEL, "--slo", "20"),
    "afd": (MODEL, "--feed-forward-system", "hgx-h200", "--feed-forward-chips", "8"),
}
VALUES = {
    "--weights": "fp8",
    "--experts": "fp8",
    "--kv": "fp8",
    "--system": "hgx-h200",
    "--engine": "none",
    "--tensor": "8",
    "--pipeline": "2",
    "--expert": "2",
    "--data": "2",
    "--context-parallel": "2",
    "--batch": "3",
    "--context": "777",
    "--prompt": "999",
    "--cached": "99",
    "--output": "99",
    "--slo": "37",
    "--slo-ttft": "50ms",
    "--max-chips": "2",
    "--count": "2",
    "--tokens": "1234",
    "--mfu": "0.3",
    "--usd-per-chip-hour": "17",
    "--life-years": "2",
    "--round-trip-s": "1s",
    "--distance-m": "1e5",
    "--utilisation": "0.2",
    "--handshakes": "2",
    "--overhead": "2",
    "--usd-per-kwh": "0.5",
    "--price": "gpt-6-sol",
    "--purchase-usd": "1",
    "--acceptance": "0.3",
    "--draft-share": "0.5",
    "--deepest": "2",
    "--prefill-system": "hgx-b200",
    "--prefill-tensor": "8",
    "--attention-chips": "16",
    "--feed-forward-system": "hgx-b200",
    "--feed-forward-chips": "4",
    "--chip": "h200-sxm",
    "--times": "1.5",
    "--active": "1G 2G",
    "--users": "1M",
    "--requests-per-day": "3",
    "--peak": "3",
    "--growth": "2",
    "--years": "5",
    "--training-share": "0.1",
    "--transceivers": "1",
    "--transceiver-w": "10",
    "--training-tokens": "1T",
    "--tokens-per-s": "1M",
    "--days": "3",
    "--input-over-output": "1",
    "--training-mfu": "0.1",
    "--serving-mfu": "0.1",
    "--shared": "99",
}
ELSEWHERE = {"--json", "--chart", "--title", "--beside", "--catalog", "--input-usd", "--cached-usd", "--output-usd"}
"""Other tests': they go together, or change no answer but where it is shown."""
ALIKE = {("memory", "--expert"), ("energy", "--expert"), ("disaggregate", "--expert")}
"""Dealt out or cut, experts take the same room and work; these three do not ask what a network takes."""
QUESTIONS = {name: each for name, each in plan.commands.items() if name not in ("list", "fit", "validate")}


def asked(name: str) -> list[str]:
    cut = ["--tensor", "4"] if any(param.name == "tensor" for param in QUESTIONS[name].params) else []
    return [*BASE.get(name, (MODEL,)), *cut]


def answer(name: str, arguments: list[str]) -> dict[str, Any] | str:
    """Or the line that refuses the value: then it was read."""
    result = CliRunner().invoke(plan, [name, *arguments, "--json"])
    assert "Traceback" not in result.output
    return json.loads(result.stdout) if result.exit_code == 0 else result.output


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_ends_of_every_range_have_an_answer(name: str) -> None:
    """As JSON, which has no infinity; or one line. Exit code 1 with JSON: nothing was found, for the reasons in it."""
    for param in QUESTIONS[name].params:
        kind = param.type
        if not isinstance(kind, click.FloatRange):
            continue
        for end in (kind.min, kind.max):
            shown = CliRunner().invoke(plan, [name, *asked(name), param.opts[0], *[repr(end)] * param.nargs, "--json"])
            assert shown.exception is None or isinstance(shown.exception, SystemExit), (param.opts[0], end)
            refused = shown.exit_code and "Error: " in shown.output.splitlines()[-1]
            assert refused or bool(shown.exit_code) == bool(json.loads(shown.stdout).get("left_out"))


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_option_is_read(name: str) -> None:
    base = asked(name)
    before = answer(name, base)
    assert isinstance(before, dict), before
    for param in QUESTIONS[name].params:
        option = param.opts[0]
        if not isinstance(param, click.Option) or option in ELSEWHERE or (name, option) in ALIKE:
            continue
        assert answer(name, [*base, option, *VALUES[option].split()]) != before, option
