"""From options to measured runs."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from headway.bench.client import Client, ClientSettings
from headway.bench.context import context_of
from headway.bench.endpoint import Endpoint, EndpointError, endpoint
from headway.bench.exchange import Deadlines
from headway.bench.load import Pace
from headway.bench.probe import only_model, overhead
from headway.bench.prompts import whole_words
from headway.bench.record import Record
from headway.bench.results import ResultError, write_run
from headway.bench.run import Bench, Run
from headway.bench.slo import Slo
from headway.bench.sweep import Point, sweep
from headway.bench.tokens import LocalTokenizer, ServerTokenizer, Tokenizer, TokenizerError
from headway.bench.words import WORDS
from headway.cli.bench_key import api_key
from headway.cli.bench_progress import Progress
from headway.cli.one_line import INTERRUPTED
from headway.cli.preconditions import ReadIf, given_options, refuse_unread
from headway.cli.workload_options import WorkloadChoice
from headway.report.cases import case_of
from headway.report.terminal import print_cases
from headway.workload.call import WorkloadError

MAX_POINTS = 100
NO_RESULT = 3
NO_TOKENIZER = "a prompt has a word for each token asked for, and an answer's tokens are as many as the server says"
_READ_IF = (
    ReadIf(("slo_share",), lambda o: o["slo"] is not None, "only with --slo LIMITS"),
    ReadIf(("no_tokenizer",), lambda o: o["tokenizer"] is None, "not with --tokenizer"),
    ReadIf(
        ("session_field",),
        lambda o: o["trace"] is not None or o["agents"] is not None,
        "only with --trace or --agents: lone requests have no session",
    ),
    ReadIf(
        ("think",),
        lambda o: o["trace"] is not None or o["agents"] is not None or o["concurrency"] is not None,
        "only with --trace, --agents or --concurrency: lone requests of an open loop have no gaps",
    ),
)
"""Beside those of the workload."""
_ENDING = (signal.SIGINT, signal.SIGTERM)


def run_bench(**options: Any) -> None:
    """Exits with 3 when a run is no result. Raises ClickException for what a user can mend."""
    given = given_options()
    refuse_unread(options, given, _READ_IF)
    choice = WorkloadChoice.taken(options, given)
    points = _points(options["concurrency"], options["rate"], choice)
    slo = options["slo"] and msgspec.structs.replace(options["slo"], share=options["slo_share"])
    _allow_many_sockets()
    try:
        target = _endpoint(options)
        with _empty_directory(options["out"]) as out:
            runs, interrupted = asyncio.run(_measure(target, choice, points, slo, out, options))
    except (EndpointError, TokenizerError, WorkloadError, ResultError) as error:
        raise _refusal(str(error)) from None
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    _show(runs, out, options["as_json"])
    if interrupted:
        sys.exit(INTERRUPTED)
    if any(run.objections for run in runs):
        sys.exit(NO_RESULT)


def _refusal(message: str) -> click.ClickException:
    """What names an option or the URL is a mistake in the command line."""
    return click.UsageError(message) if message.startswith(("--", "URL: ")) else click.ClickException(message)


def _show(runs: list[Run], out: Path, as_json: bool) -> None:
    if as_json:
        for run in runs:
            click.echo(msgspec.json.encode(run).decode())
        for remark in (*runs[-1].objections, *runs[-1].notes):
            click.echo(f"{runs[-1].label}: {remark}", err=True)
    else:
        print_cases([case_of(run) for run in runs])
    click.echo(f"Kept in {out}; `headway report {shlex.quote(str(out))} --html report.html` draws it.", err=True)


async def _measure(
    target: Endpoint, choice: WorkloadChoice, points: list[Point], slo: Slo | None, out: Path, options: dict[str, Any]
) -> tuple[list[Run], bool]:
    settings = ClientSettings(
        Deadlines(
            options["connect_timeout_s"],
            options["first_text_timeout_s"],
            options["silence_timeout_s"],
            options["timeout_s"],
        ),
        options["retries"],
        options["done"],
    )
    key = api_key(os.environ)
    choice.make(points[0].concurrency, points[0].rate_per_s)  # a mistake in it shows before the server is troubled
    stop = asyncio.Event()
    client = Client(target, settings, key)
    try:
        card = await only_model(client)
        client.endpoint = msgspec.structs.replace(client.endpoint, model=card["id"])
        with Progress() as progress:
            notes = _within_context(choice, context_of(card))
            bench = await _bench(client, settings, slo, context_of(card), notes, progress, options)
            restore = _stop_on_interrupt(stop)
            try:
                return await _sweep(bench, choice, points, out, card, progress, stop, options), stop.is_set()
            finally:
                restore()
    finally:
        client.close()


def _within_context(choice: WorkloadChoice, context: int | None) -> list[str]:
    """Agents compact before the context is full, as their makers set them up and as `headway simulate` has them."""
    if choice.options["agents"] is None or choice.options["max_context"] is not None or context is None:
        return []
    choice.options["max_context"] = context
    return [f"sessions compact at the server's context of {context:,} tokens; --max-context N sets another"]


async def _bench(
    client: Client,
    settings: ClientSettings,
    slo: Slo | None,
    context: int | None,
    notes: list[str],
    progress: Progress,
    options: dict[str, Any],
) -> Bench:
    tokenizer = await _tokenizer(client, options, notes)
    words = list(WORDS) if tokenizer is None else await whole_words(tokenizer)
    seed = options["prompt_seed"] if options["prompt_seed"] is not None else secrets.randbits(48)
    overhead_tokens, inexact = await overhead(client, words, seed)
    return Bench(
        client=client,
        settings=settings,
        words=words,
        tokenizer=tokenizer,
        overhead_tokens=overhead_tokens,
        prompt_seed=seed,
        pace=Pace(options["think"], options["duration_s"]),
        slo=slo,
        warmup_requests=options["warmup"],
        max_lateness_s=options["max_lateness_s"],
        max_failed=options["max_failed"],
        context=context,
        on_record=progress.advance,
        notes=[*notes, *([inexact] if inexact else [])],
    )


async def _tokenizer(client: Client, options: dict[str, Any], notes: list[str]) -> Tokenizer | None:
    if options["tokenizer"]:
        return LocalTokenizer(Path(options["tokenizer"]))
    if not options["no_tokenizer"]:
        tokenizer = ServerTokenizer(client)
        try:
            await tokenizer.count(["time"])
        except TokenizerError as error:
            notes.append(f"no tokenizer ({error}): {NO_TOKENIZER}")
        else:
            return tokenizer
    else:
        notes.append(f"no tokenizer: {NO_TOKENIZER}")
    return None


async def _sweep(
    bench: Bench,
    choice: WorkloadChoice,
    points: list[Point],
    out: Path,
    card: dict[str, Any],
    progress: Progress,
    stop: asyncio.Event,
    options: dict[str, Any],
) -> list[Run]:
    label = options["label"] or card["id"]
    described = choice.described() | ({} if points[0].concurrency else {"speed": options["speed"]})

    async def one(point: Point) -> tuple[Run, list[Record]]:
        workload = choice.make(point.concurrency, point.rate_per_s, options["speed"])
        progress.begin(point.name, workload.num_calls)
        run, records = await bench.run(point.name, workload, described | point.described(), stop)
        run.label = label
        run.command = [Path(sys.argv[0]).name, *sys.argv[1:]]
        run.server = {key: value for key, value in card.items() if isinstance(value, str | int | float)}
        return run, records

    def keep(point: Point, run: Run, records: list[Record]) -> None:
        write_run(out if len(points) == 1 else out / point.name, run, records)

    return await sweep(points, one, keep, bench.slo, stop)


def _allow_many_sockets() -> None:
    """A thousand streams are a thousand files; the common limit is 1024."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _points(concurrency: str | None, rate: str | None, choice: WorkloadChoice) -> list[Point]:
    if concurrency is not None:
        return [Point(concurrency=value) for value in _numbers("--concurrency", concurrency, int, 20_000)]
    if rate is not None:
        return [Point(rate_per_s=value) for value in _numbers("--rate", rate, float, 1e6)]
    return [Point(rate_per_s=choice.default_rate_per_s)]


def _numbers(name: str, text: str, kind: Callable[[str], Any], most: float) -> list[Any]:
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise click.UsageError(f"{name}: {text!r} must be {what}, or several with commas between") from None
    if not all(math.isfinite(value) and 0 < value <= most for value in values):
        raise click.UsageError(f"{name}: each must be above 0 and at most {most:g}, not {text!r}")
    if len(values) > MAX_POINTS or len(set(values)) < len(values):
        raise click.UsageError(f"{name}: at most {MAX_POINTS} different numbers")
    return values


def _endpoint(options: dict[str, Any]) -> Endpoint:
    extra: Any = {}
    if options["extra"]:
        try:
            extra = msgspec.json.decode(options["extra"])
        except msgspec.DecodeError as error:
            raise EndpointError(f"--extra: {error}") from None
        if not isinstance(extra, dict):
            raise EndpointError("--extra: it must be a JSON object")
    fields = {name: options[name] for name in ("model", "ignore_eos", "session_field")}
    if options["api"]:
        fields["api"] = options["api"]
    return endpoint(options["url"], extra=extra, **fields)


@contextlib.contextmanager
def _empty_directory(out: Path | None) -> Iterator[Path]:
    """Made before anything is measured, and gone again if nothing was. Raises ResultError instead of overwriting."""
    out = out or Path(f"bench-{datetime.now():%Y%m%d-%H%M%S}")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ResultError(f"--out {out}: it exists already and is not an empty directory")
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultError(f"--out {out}: {error.strerror}") from None
    try:
        yield out
    finally:
        with contextlib.suppress(OSError):
            out.rmdir()


def _stop_on_interrupt(stop: asyncio.Event) -> Callable[[], None]:
    """Ctrl-C, or a request to end, gives up what is under way and keeps what is done; a second one ends at once."""
    loop = asyncio.get_running_loop()

    def restore() -> None:
        for number in _ENDING:
            loop.remove_signal_handler(number)

    def interrupted() -> None:
        if stop.is_set():
            restore()
            signal.raise_signal(signal.SIGINT)
        stop.set()

    try:
        for number in _ENDING:
            loop.add_signal_handler(number, interrupted)
    except (NotImplementedError, RuntimeError, ValueError):
        return lambda: None
    return restore
