"""Options that make a workload: the same words, and so the same requests, wherever requests are made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headway.cli.preconditions import ReadIf, refuse_unread
from headway.cli.quantities import NamedPath, Number, Seconds
from headway.cli.session_options import OF_TOOLS, SESSION_OPTIONS, given
from headway.cli.spreads import Spread, lengths

if TYPE_CHECKING:
    from headway.workload.call import Session, Workload

Command = Callable[..., None]
COUNT = click.IntRange(1, 1_000_000_000)
TOKENS = click.IntRange(0, 1_000_000)
LONE_REQUESTS = 100


def _option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """With its default in the help."""
    return click.option(*names, **{"show_default": True, **settings})


_OPTIONS: dict[str, Callable[[Command], Command]] = {
    "trace": _option(
        "--trace", type=NamedPath(dir_okay=False, path_type=Path), help="Replay FILE, of any known format."
    ),
    "agents": _option("--agents", metavar="PRESET", help="Sessions of turns: chat, coding_agent or tracelab."),
    "requests": _option("--requests", type=COUNT, help="Requests to make.  [default: 100, or all that there are]"),
    "sessions": _option("--sessions", type=COUNT, default=10, help="Sessions to make."),
    "input_tokens": _option(
        "--input-tokens",
        type=Spread(lengths),
        default="512",
        help="Tokens of a prompt: 512, 100-900 or 1000~0.8 (lognormal, cut at 1,000,000).",
    ),
    "output_tokens": _option("--output-tokens", type=Spread(lengths), default="128", help="Written as --input-tokens."),
    "prefixes": _option("--prefixes", type=COUNT, default=1, help="Different shared prefixes."),
    "prefix_tokens": _option("--prefix-tokens", type=TOKENS, default=0, help="Tokens of each shared prefix."),
    "arrivals": _option(
        "--arrivals",
        type=click.Choice(["poisson", "gamma", "constant"]),
        default="poisson",
        help="How requests come in an open loop (--rate).",
    ),
    "cv": _option("--cv", type=Number(0.001, 1000), default=1.0, help="Burstiness of gamma arrivals."),
    "jitter_s": _option(
        "--jitter-s",
        type=Seconds(least_s=0, most_s=3600),
        default=0.0,
        help="Closed loop: a client pauses, evenly drawn, up to so long before each request.",
    ),
    "shared_tokens": _option(
        "--shared-tokens",
        type=TOKENS,
        help="Tokens of the prefix that all sessions share.  [default: 14000, chat 1000, or an eighth of the context]",
    ),
    **SESSION_OPTIONS,
    "sub_agents": _option(
        "--sub-agents",
        type=Number(0, 1),
        default=0.0,
        help="Share of agents' calls that start sub-agents; 0.0011 was measured.",
    ),
    "fork": click.option("--fork", is_flag=True, help="Sub-agents go on from their parent's prompt."),
    "think_by_hour": _option(
        "--think-by-hour",
        metavar="PROFILE",
        help="People arrive and think by hour and weekday: office (assumed), or FILE of 7 lines of 24 numbers.",
    ),
    "week_begins": _option(
        "--week-begins",
        type=click.IntRange(0, 167),
        default=9,
        help="With --think-by-hour: at which hour of the week, from Monday 0:00.",
    ),
    "max_context": _option("--max-context", type=COUNT, help="Leave out calls longer than this, prompt and output."),
    "seed": _option("--seed", type=click.IntRange(0, (1 << 63) - 1), default=0, help="One seed, one workload."),
}


def workload_options(command: Command) -> Command:
    """Adds the options; `WorkloadChoice.taken` collects them from what the command is called with."""
    for option in reversed(tuple(_OPTIONS.values())):
        command = option(command)
    return command


def _no_trace(options: Mapping[str, Any]) -> bool:
    return options["trace"] is None


def _agents(options: Mapping[str, Any]) -> bool:
    return options["agents"] is not None


def _uses_tools(options: Mapping[str, Any]) -> bool:
    return options["agents"] != "chat" or options["calls_per_turn"] is not None


def _lone(options: Mapping[str, Any]) -> bool:
    """Requests by distribution, each by itself."""
    return options["trace"] is None and options["agents"] is None


def _open_loop(options: Mapping[str, Any]) -> bool:
    return options.get("concurrency") is None


_READ_IF = (
    ReadIf(("agents",), _no_trace, "not with --trace: choose one workload"),
    ReadIf(("sessions", "shared_tokens", *SESSION_OPTIONS, "sub_agents", "fork"), _agents, "only with --agents PRESET"),
    ReadIf(
        (*OF_TOOLS, "sub_agents"), _uses_tools, "with --agents chat only with --calls-per-turn N: it has no tools else"
    ),
    ReadIf(
        ("input_tokens", "output_tokens", "prefixes", "prefix_tokens", "jitter_s"),
        _lone,
        "not with --trace or --agents, which have requests of their own",
    ),
    ReadIf(
        ("rate", "arrivals", "cv", "think_by_hour"),
        _no_trace,
        "not with --trace, which has times of its own (--speed makes them shorter)",
    ),
    ReadIf(("rate",), _open_loop, "not with --concurrency: choose an open or a closed loop"),
    ReadIf(("arrivals", "cv", "speed", "think_by_hour"), _open_loop, "not with --concurrency: nobody arrives there"),
    ReadIf(("cv",), lambda o: o["arrivals"] == "gamma", "only with --arrivals gamma"),
    ReadIf(("jitter_s",), lambda o: not _open_loop(o), "only with --concurrency (closed loop)"),
    ReadIf(("fork",), lambda o: "sub_agents" in o["given"], "only with --sub-agents SHARE"),
    ReadIf(("prefixes",), lambda o: "prefix_tokens" in o["given"], "only with --prefix-tokens N"),
    ReadIf(("week_begins",), lambda o: o["think_by_hour"] is not None, "only with --think-by-hour PROFILE"),
)
"""Of these options and of those that say the load."""


@dataclass(frozen=True, slots=True)
class WorkloadChoice:
    """What was asked for; `make` may be called again for the same requests at another load."""

    options: dict[str, Any]
    read: frozenset[str]
    """Those that this workload at this load reads."""

    @classmethod
    def taken(cls, options: dict[str, Any], given: Collection[str]) -> WorkloadChoice:
        """Removes its own options from all of a command's. Raises UsageError for one of those `given` on the command
        line that the workload and the load asked for do not read.
        """
        refuse_unread(options, given, _READ_IF)
        asked = {**options, "given": given}
        unread = {name for rule in _READ_IF if not rule.holds(asked) for name in rule.options}
        return cls({name: options.pop(name) for name in _OPTIONS}, frozenset(_OPTIONS.keys() - unread))

    def described(self) -> dict[str, Any]:
        """For a result: plain values of what makes the requests; what is not read or not set is left out."""
        made_of = {name: value for name, value in self._set().items() if value is not None}
        trace = self.options["trace"]
        return made_of if trace is None else made_of | {"trace": str(trace), "trace_sha256": _sha256(trace)}

    def _set(self) -> dict[str, Any]:
        found = {name: value for name, value in self.options.items() if name in self.read}
        return found | ({"requests": found["requests"] or LONE_REQUESTS} if _lone(self.options) else {})

    @property
    def default_rate_per_s(self) -> float | None:
        """Of sessions, where neither rate nor concurrency is given; None: a trace has its own times. Agents' sessions
        last for hours.
        """
        if self.options["trace"] is not None:
            return None
        return 1.0 if self.options["agents"] in (None, "chat") else 0.01

    def make(self, concurrency: int | None, rate_per_s: float | None, speed: float = 1.0) -> Workload:
        """Closed loop by `concurrency`, open loop by `rate_per_s`; a trace without either keeps its own times. All come
        `speed` times as fast.

        Raises WorkloadError.
        """
        from headway.workload.call import WorkloadError, faster, soon

        try:
            trace = self.options["trace"]
            return soon(faster(self._made(concurrency, rate_per_s), speed), f"{trace}: " if trace else "")
        except WorkloadError as error:
            raise WorkloadError(_in_options(str(error))) from None

    def _made(self, concurrency: int | None, rate_per_s: float | None) -> Workload:
        options = self.options
        workload = self._trace(concurrency) if options["trace"] is not None else self._drawn(concurrency, rate_per_s)
        if options["think_by_hour"] is not None:
            from headway.workload.week import Week, by_the_week, read_week

            workload = by_the_week(workload, Week(read_week(options["think_by_hour"]), options["week_begins"]))
        if options["max_context"] is not None:
            kept = _within(workload.sessions, options["max_context"])
            workload = replace(workload, sessions=kept, num_calls=None)
        if options["requests"] is not None and not _lone(options):
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
        from headway.workload.notation import LENGTHS
        from headway.workload.synthetic import Synthetic

        options = self.options
        if options["agents"] is not None:
            return Agentic(
                options["agents"],
                options["sessions"],
                rate_per_s=rate_per_s or self.default_rate_per_s or 1.0,
                arrivals=options["arrivals"],
                cv=options["cv"],
                concurrency=concurrency,
                shared_tokens=options["shared_tokens"],
                sub_agents=options["sub_agents"],
                fork=options["fork"],
                given=given(options),
                **({"max_context": options["max_context"]} if options["max_context"] else {}),
            ).workload(options["seed"])
        return Synthetic(
            options["requests"] or LONE_REQUESTS,
            LENGTHS.parse(options["input_tokens"]),
            LENGTHS.parse(options["output_tokens"]),
            rate_per_s=rate_per_s or self.default_rate_per_s or 1.0,
            arrivals=options["arrivals"],
            cv=options["cv"],
            concurrency=concurrency,
            jitter_s=options["jitter_s"],
            prefixes=options["prefixes"],
            prefix_tokens=options["prefix_tokens"],
        ).workload(options["seed"])


def _sha256(path: Path) -> str:
    """A trace is more than its name. Raises WorkloadError."""
    from headway.workload.call import WorkloadError

    try:
        return _digest(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from None


@lru_cache
def _digest(path: Path, _mtime_ns: int) -> str:
    """Read once for all points of a sweep."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _in_options(message: str) -> str:
    """`field must be …` with the option that sets it."""
    field, must, rest = message.partition(" must be ")
    field = field.removeprefix("num_")
    return f"--{field.replace('_', '-')}{must}{rest}" if must and field in _OPTIONS else message


def _one_by_one(sessions: Any) -> Iterator[Session]:
    """Sessions of a trace without the times at which they began."""
    for session in sessions:
        yield (msgspec.structs.replace(session[0], arrival_s=0.0, gap_s=0.0), *session[1:])


def _within(sessions: Any, most: int) -> Iterator[Session]:
    """A session ends before its first call that is too long. Raises WorkloadError if none is left."""
    from headway.workload.call import WorkloadError

    any_kept = False
    for session in sessions:
        kept = []
        for call in session:
            if call.num_input_tokens + call.num_output_tokens > most:
                break
            kept.append(call)
        if kept:
            any_kept = True
            yield kept
    if not any_kept:
        raise WorkloadError(f"--max-context {most} leaves no call: all are longer")
