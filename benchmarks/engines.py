"""A serving benchmark: Headway, Hugging Face `generate`, and other engines where they are installed.

    python benchmarks/engines.py --json
    python benchmarks/engines.py --engines headway,hf --jobs A1 --runs 3

Job A: 256 random prompt tokens in, 128 out; 8 requests one at a time (A1), or 32, 8 or 32 at a time (A8, A32).
Job B: 32 requests that share 1,024 prompt tokens and have 64 of their own, 64 out, all at once (B32).
Engines take turns, run by run and job by job; each is a process of its own, started for its turn and stopped after
it. Headway and the peers are asked over HTTP. How to install peers: docs/peers.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.status import Status

from headway.engine.errors import ModelError
from headway.engine.model_store import resolve_model
from headway.engine.progress import terminal_progress
from serving.jobs import JOBS
from serving.measurement import REFERENCE
from serving.peers import FAMILIES, Setting, engines
from serving.race import Race, Results
from serving.report import absences, as_json, as_table, cores

INTERRUPTED = 130


def _names(text: str) -> list[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ", ".join(name for family, settings in FAMILIES.items() for name in dict.fromkeys((family, *settings)))
    parser.add_argument("--engines", type=_names, default=list(FAMILIES), metavar="A,B", help=f"of {every}")
    parser.add_argument("--jobs", type=_names, default=list(JOBS), metavar="A,B", help=f"of {', '.join(JOBS)}")
    parser.add_argument("--runs", type=_count, default=1, help="turns of each engine at each job")
    parser.add_argument("--peers", type=Path, default=os.environ.get("HEADWAY_PEERS"), metavar="DIR")
    parser.add_argument("--model", metavar="DIR", help="for Headway, Hugging Face and vLLM; else the default model")
    parser.add_argument(
        "--threads", type=_count, default=cores(), help="of each engine (default: %(default)s, the cores)"
    )
    parser.add_argument("--headway", default="", metavar="OPTIONS", help='of `headway serve`, as "--dtype bfloat16"')
    parser.add_argument("--shrink", type=_count, default=1, help="divide token counts: a quick look, no result")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _race(parser: argparse.ArgumentParser, arguments: argparse.Namespace, watch: Status) -> Race:
    try:
        chosen = engines(arguments.engines)
    except KeyError as error:
        parser.error(f"--engines: there is no {error}; there are {', '.join(FAMILIES)}")
    if unknown := [name for name in arguments.jobs if name not in JOBS]:
        parser.error(f"--jobs: there is no {unknown[0]!r}; there are {', '.join(JOBS)}")
    if not chosen or not arguments.jobs:
        parser.error("--engines and --jobs need at least one name each")
    try:
        with terminal_progress() as report:
            model_dir = resolve_model(arguments.model, report)
    except ModelError as error:
        parser.error(f"--model: {error}")
    return Race(
        setting=Setting(
            model_dir=model_dir.resolve(),
            is_default_model=arguments.model is None,
            peers=arguments.peers.resolve() if arguments.peers else None,
            threads=arguments.threads,
            headway_arguments=tuple(arguments.headway.split()),
        ),
        engines=chosen,
        jobs=[JOBS[name].shrunk(arguments.shrink) for name in dict.fromkeys(arguments.jobs)],
        runs=arguments.runs,
        began=watch.update,
        done=lambda line: watch.console.print(line, markup=False, highlight=False, soft_wrap=True),
    )


def main() -> int:
    """0, or 1 when Headway gave a wrong answer or none, or 130 after Ctrl-C or SIGTERM."""
    parser = _parser()
    arguments = parser.parse_args()
    # A spinner on a terminal, nothing elsewhere.
    watch = Console(stderr=True).status("")
    # Ended either way, it stops the engine whose turn it is.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    race, results, status = _race(parser, arguments, watch), Results(), 0
    try:
        with watch if watch.console.is_terminal else contextlib.nullcontext():
            asyncio.run(race.run(results))
    except KeyboardInterrupt:
        print("interrupted: what follows is what was done", file=sys.stderr)
        status = INTERRUPTED
    if arguments.json:
        print(json.dumps(as_json(results, race.engines, race.jobs, arguments.threads)))
    else:
        Console().print(as_table(results, race.engines, race.jobs))
        for line in absences(results, race.engines):
            print(line)
    flawed = any(m.wrong or m.failed for m in results.measurements if m.engine == REFERENCE)
    return status or int(flawed or REFERENCE in results.lost)


if __name__ == "__main__":
    sys.exit(main())
