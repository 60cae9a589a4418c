"""`headway bench` and `headway report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headway.cli.bench_slo import Limits
from headway.cli.out_files import OutFile
from headway.cli.plan_options import distinct
from headway.cli.preconditions import Beside
from headway.cli.quantities import NamedPath, Number, Seconds
from headway.cli.workload_options import workload_options

_PATH = NamedPath(path_type=Path)


@click.command(context_settings={"show_default": True})
@click.argument("url")
@workload_options
@click.option("--concurrency", metavar="N[,N…]", help="Closed loop: sessions in progress. Several: a sweep.")
@click.option("--rate", metavar="R[,R…]", help="Open loop: sessions a second. [default: 1, of agents 0.01]")
@click.option("--speed", type=Number(1e-6, 1e6), default=1.0, help="Arrivals, so many times as fast.")
@click.option("--think", type=Number(0, 1e3), default=1.0, help="Gaps in sessions so many times as long.")
@click.option("--duration-s", type=Seconds(), help="Nothing is sent after this.")
@click.option(
    "--slo", type=Limits(), metavar="LIMITS", help="As ttft=2s,tpot=50ms,gap=200ms,e2e=30s. A sweep stops at it."
)
@click.option("--slo-share", type=Number(0, 1, min_open=True), default=0.9, help="Requests that must keep the SLO.")
@click.option("--warmup", type=click.IntRange(0, 10_000), default=4, help="Requests before each run, not counted.")
@click.option("--api", type=click.Choice(["chat", "completions"]), help="[default: chat, or what URL ends in]")
@click.option(
    "--model",
    default="",
    show_default=False,
    metavar="NAME",
    help="Model to ask for.  [default: the server's only one]",
)
@click.option("--tokenizer", metavar="PATH", help="tokenizer.json or its folder.  [default: the server's /tokenize]")
@click.option(
    "--no-tokenizer",
    is_flag=True,
    help="A word for each token of a prompt; answers by the server's counts, or by chunks.",
)
@click.option("--ignore-eos/--no-ignore-eos", default=True, help="Ask for outputs of exactly the workload's lengths.")
@click.option("--session-field", metavar="NAME", help="Field of the body that names the session.")
@click.option("--extra", metavar="JSON", help="More fields of every body.")
@click.option(
    "--prompt-seed", type=click.IntRange(0), help="Makes the same texts again.  [default: a new one, so no cache helps]"
)
@click.option(
    "--retries", type=click.IntRange(0, 100), default=0, help="Tries after a 429 or 503, each when Retry-After says."
)
@click.option("--done/--no-done", default=True, help="Whether a stream must end in [DONE].")
@click.option("--connect-timeout-s", type=Seconds(), default=10.0)
@click.option("--first-text-timeout-s", type=Seconds(), default=600.0)
@click.option("--silence-timeout-s", type=Seconds(), default=120.0)
@click.option("--timeout-s", type=Seconds(), default=3600.0, help="For a whole answer.")
@click.option(
    "--max-lateness-s",
    type=Seconds(),
    default=0.025,
    help="Lateness of the load generator (p99) beyond which a run is no result.",
)
@click.option(
    "--max-failed",
    type=Number(0, 1),
    default=0.05,
    help="Share of failed requests beyond which a run is no result.",
)
@click.option("--label", metavar="NAME", help="What a report calls it.  [default: the model]")
@click.option("--out", type=_PATH, help="Directory of the results.  [default: bench-DATE-TIME]")
@click.option("--json", "as_json", is_flag=True, help="The results as JSON lines on stdout.")
def bench(**options: Any) -> None:
    """Measure the OpenAI-compatible server at URL.

    The same requests as `headway simulate` makes of the same options. The API key is read from HEADWAY_API_KEY or
    OPENAI_API_KEY (`headway serve` reads the keys that it accepts from HEADWAY_API_KEYS).

    Exit codes: 0 when every run is a result, 2 for a mistake in the command line, 1 for a server or a file that cannot
    be used, 3 when a run is no result, 130 when interrupted.
    """
    from headway.cli.benching import run_bench

    run_bench(**options)


@click.command(context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=_PATH, callback=distinct)
@click.option("--html", type=OutFile(".html", ".htm"), help="Write one self-contained page.")
@click.option("--title", cls=Beside, other="html", default="Headway report", help="Of the page.")
@click.option("--png", type=NamedPath(file_okay=False, path_type=Path), help="Also write each chart as a picture here.")
def report(runs: tuple[Path, ...], html: Path | None, title: str, png: Path | None) -> None:
    """Compare RUNS: results of `headway bench`, directories of several, and of `headway simulate`: what `--json` prints
    and what `--out` keeps.
    """
    from headway.cli.reporting import show_report

    show_report(runs, html, title, png)
