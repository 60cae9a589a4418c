"""What would fit where something does not: what a refusal names is tried."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from click.testing import CliRunner, Result

from headway.arithmetic.shape import ShapeError
from headway.cli.plan import plan
from headway.planner.decoding import decode_report
from tests.planner.deployments import deployed


@pytest.mark.parametrize(("name", "context", "batch"), [("llama-3.1-70b", 8192, 32), ("deepseek-v3", 4096, 16)])
def test_what_is_said_to_fit_fits(name: str, context: int, batch: int) -> None:
    """Both the fewer sequences and the more chips that the refusal names."""
    small = deployed(name, "gb200-nvl72", weights="bf16", tensor=1)
    with pytest.raises(ShapeError, match=r"needs .* GB a chip, and .* are usable: .*--tensor (\d+) fits") as refused:
        small.check_fits(context, batch)
    tensor = int(str(refused.value).split("--tensor ")[1].split()[0])
    deployed(name, "gb200-nvl72", weights="bf16", tensor=tensor).check_fits(context, batch)
    full = deployed(name, "hgx-b200")
    with pytest.raises(ShapeError, match=r"batch (\d+) fits") as refused:
        full.check_fits(131_072, 512)
    most = int(str(refused.value).split("batch ")[1].split()[0])
    full.check_fits(131_072, most)
    with pytest.raises(ShapeError):
        full.check_fits(131_072, most + 1)


_QUESTIONS = ("receipt", "price", "fleet", "journey", "energy", "load", "speculation", "disaggregate", "prefix")


@pytest.mark.parametrize("question", _QUESTIONS)
@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("llama-3.1-70b", [], {"--tensor"}),
        ("llama-3.1-405b", [], {"--tensor", "--pipeline", "--weights"}),  # More than eight H100 hold.
        ("deepseek-v3", ["--weights", "fp8", "--system", "hgx-h200"], {"--tensor"}),
    ],
)
def test_every_refusal_names_options_that_fit(question: str, name: str, options: list[str], words: set[str]) -> None:
    def ask(more: Sequence[str]) -> Result:
        return CliRunner().invoke(plan, [question, name, *options, *more])

    refused = ask([])
    assert refused.exit_code == 1
    ways = refused.output.split("usable: ")[1].split(", try narrower")[0].split(", ")
    assert {word for way in ways for word in way.split() if word.startswith("--")} == words
    for way in ways:
        found = ask(way.removesuffix(" fits").replace(" with batch ", " --batch ").split())
        assert found.exit_code == 0, found.output


def test_a_decode_report_says_what_would_fit() -> None:
    small = deployed("llama-3.1-70b", tensor=2)
    assert decode_report(small, [1], [1024]).would_fit == "all fit"
    most = small.memory(1024, 1).max_batch
    said = decode_report(small, [most, most + 1, 5000], [1024]).would_fit
    assert said.startswith(f"{most + 1} x 1,024 tokens: batch {most} fits, --tensor 4 fits, ")


def test_nothing_is_said_to_fit_that_does_not() -> None:
    with pytest.raises(ShapeError) as refused:
        deployed("kimi-k3", "rtx-4090-node", weights="bf16", tensor=1).check_fits(1024, 1)
    assert "--tensor" not in str(refused.value)
    assert "narrower --weights" in str(refused.value)
