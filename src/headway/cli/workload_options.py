"""Options that make a workload: the same words, and so the same requests, wherever requests are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import NamedPath

if TYPE_CHECKING:
    from headway.workload.call import Session, Workload

Command = Callable[..., None]
COUNT = click.IntRange(min=1)
_NAMES = (
    "trace",
    "agents",
    "requests",
    "sessions",
    "input_tokens",
    "output_tokens",
    "prefixes",
    "prefix_tokens",
    "arrivals",
    "cv",
    "jitter_s",
    "shared_tokens",
    "sub_agents",
    "fork",
    "think_by_hour",
    "week_begins",
    "max_context",
    "seed",
)


def workload_options(command: Command) -> Command:
    """Adds the options; `WorkloadChoice.taken` collects them from what the command is called with."""
    for option in reversed(
        (
            click.option(
                "--trace", type=NamedPath(dir_okay=False, path_type=Path), help="Replay FILE, of any known format."
            ),
            click.option("--agents", metavar="PRESET", help="Agent sessions: coding_agent or tracelab."),
            click.option("--requests", type=COUNT, help="Requests to make.  [default: 100, or all of a trace]"),
            click.option("--sessions", type=COUNT, default=10, show_default=True, help="Sessions of agents to make."),
            click.option(
                "--input-tokens",
                default="512",
                show_default=True,
                help="Tokens of a prompt: 512, 100-900 or 1000~0.8 (lognormal).",
            ),
            click.option("--output-tokens", default="128", show_default=True, help="Written as --input-tokens."),
            click.option("--prefixes", type=COUNT, default=1, show_default=True, help="Different shared prefixes."),
            click.option(
                "--prefix-tokens",
                type=click.IntRange(0),
                default=0,
                show_default=True,
                help="Tokens of each shared prefix.",
            ),
            click.option(
                "--arrivals",
                type=click.Choice(["poisson", "gamma", "constant"]),
                default="poisson",
                show_default=True,
                help="How requests come in an open loop (--rate).",
            ),
            click.option("--cv", type=float, default=1.0, show_default=True, help="Burstiness of gamma arrivals."),
            click.option(
                "--jitter-s",
                type=click.FloatRange(0, 3600),
                default=0.1,
                show_default=True,
                help="Closed loop: pause of up to so long before a request.",
            ),
            click.option(
                "--shared-tokens",
                type=click.IntRange(0),
                default=14_000,
                show_default=True,
                help="Tokens of the prefix that all agents share.",
            ),
            click.option(
                "--sub-agents",
                type=click.FloatRange(0, 1),
                default=0.0,
                show_default=True,
                help="Share of agents' calls that start sub-agents; 0.0011 was measured.",
            ),
            click.option("--fork", is_flag=True, help="Sub-agents go on from their parent's prompt."),
            click.option(
                "--think-by-hour",
                metavar="PROFILE",
                help="People arrive and think by hour and weekday: office (assumed), or FILE of 7 lines of 24 numbers.",
            ),
            click.option(
                "--week-begins",
                type=click.IntRange(0, 167),
                default=9,
                show_default=True,
                help="With --think-by-hour: at which hour of the week, from Monday 0:00.",
            ),
            click.option("--max-context", type=COUNT, help="Leave out calls longer than this, prompt and output."),
            click.option(
                "--seed", type=click.IntRange(0), default=0, show_default=True, help="One seed, one workload."
            ),
        )
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class WorkloadChoice:
    """What was asked for; `make` may be called again for the same requests at another load."""

    options: dict[str, Any]

    @classmethod
    def taken(cls, options: dict[str, Any]) -> WorkloadChoice:
        """Removes its own options from all of a command's. Raises UsageError where two workloads are asked for."""
        if options["trace"] is not None and options["agents"] is not None:
            raise click.UsageError("choose one: --trace FILE or --agents PRESET")
        if options["trace"] is not None and options["think_by_hour"] is not None:
            raise click.UsageError("choose one: --think-by-hour, or --trace FILE, whose times are as they were")
        return cls({name: options.pop(name) for name in _NAMES})

    def described(self) -> dict[str, Any]:
        """For a result: plain values, those that are not set left out."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in self.options.items()
            if value is not None
        }

    @property
    def default_rate_per_s(self) -> float | None:
        """Of sessions, where neither rate nor concurrency is given; None: a trace has its own times."""
        if self.options["trace"]:
            return None
        return 0.01 if self.options["agents"] else 1.0

    def make(self, concurrency: int | None, rate_per_s: float | None) -> Workload:
        """Closed loop by `concurrency`, open loop by `rate_per_s`; a trace without either keeps its own times.

        Raises WorkloadError.
        """
        options = self.options
        workload = self._trace(concurrency) if options["trace"] else self._drawn(concurrency, rate_per_s)
        if options["think_by_hour"] is not None:
            from headway.workload.week import Week, by_the_week, read_week

            workload = by_the_week(workload, Week(read_week(options["think_by_hour"]), options["week_begins"]))
        if options["max_context"] is not None:
            kept = _within(workload.sessions, options["max_context"])
            workload = replace(workload, sessions=kept, num_calls=None)
        if options["requests"] is not None and (options["trace"] or options["agents"]):
            workload = workload.head(options["requests"])
        return workload

    def _trace(self, concurrency: int | None) -> Workload:
        from headway.workload.trace import open_trace

        workload = open_trace(self.options["trace"], self.options["seed"])
        if concurrency is None:
            return workload
        return replace(workload, sessions=_one_by_one(workload.sessions), concurrency=concurrency)

    def _drawn(self, concurrency: int | None, rate_per_s: float | None) -> Workload:
        from headway.workload.agentic import Agentic
        from headway.workload.lengths import parse_lengths
        from headway.workload.synthetic import Synthetic

        options = self.options
        if options["agents"]:
            return Agentic(
                options["agents"],
                options["sessions"],
                rate_per_s=rate_per_s or self.default_rate_per_s or 1.0,
                arrivals=options["arrivals"],
                concurrency=concurrency,
                shared_tokens=options["shared_tokens"],
                sub_agents=options["sub_agents"],
                fork=options["fork"],
                **({"max_context": options["max_context"]} if options["max_context"] else {}),
            ).workload(options["seed"])
        return Synthetic(
            options["requests"] or 100,
            parse_lengths(options["input_tokens"]),
            parse_lengths(options["output_tokens"]),
            rate_per_s=rate_per_s or self.default_rate_per_s or 1.0,
            arrivals=options["arrivals"],
            cv=options["cv"],
            concurrency=concurrency,
            jitter_s=options["jitter_s"],
            prefixes=options["prefixes"],
            prefix_tokens=options["prefix_tokens"],
        ).workload(options["seed"])


def _one_by_one(sessions: Any) -> Iterator[Session]:
    """Sessions of a trace without the times at which they began."""
    for session in sessions:
        yield (replace(session[0], arrival_s=0.0, gap_s=0.0), *session[1:])


def _within(sessions: Any, most: int) -> Iterator[Session]:
    """A session ends before its first call that is too long."""
    for session in sessions:
        kept = []
        for call in session:
            if call.num_input_tokens + call.num_output_tokens > most:
                break
            kept.append(call)
        if kept:
            yield kept
