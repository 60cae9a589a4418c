"""What may be changed of a logged run, as it is written: `chunk=512,system=h100x8`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headway.scheduler.config import ConfigError, SchedulerConfig
from headway.workload.call import WorkloadError


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("on or off")
    return text == "on"


def _count(most: int) -> Callable[[str], int]:
    def counted(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= most):
            raise ValueError(f"a whole number from 1 to {most:,}")
        return int(text)

    return counted


def _one_of(*names: str) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text not in names:
            raise ValueError(" or ".join(names))
        return text.replace("-", "_")

    return chosen


CHANGES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "prefix_cache": ("prefix_caching", _switch),
    "chunk": ("max_step_tokens", _count(1 << 20)),
    "max_running": ("max_running", _count(65_536)),
    "batching": ("batching", _one_of("continuous", "static")),
    "reservation": ("reservation", _one_of("demand", "worst-case", "worst_case")),
    "blocks": ("groups", _count(1 << 24)),
}
"""Of the scheduler. Name → field of its configuration, and how its value is written."""
HARDWARE = (
    "system",
    "tensor",
    "pipeline",
    "expert",
    "data",
    "context_parallel",
    "weights",
    "experts",
    "kv",
    "calibrated",
    "host_gap",
)
"""Of the steps' durations: they need a cost model."""
FLEET = ("replicas", "router")


def parse_changes(text: str) -> dict[str, str]:
    """`name=value,name=value`. Raises WorkloadError for a name that is not known or a value that is not allowed; values
    of HARDWARE and FLEET are for those to judge who know the options of these names.
    """
    changes: dict[str, str] = {}
    known = (*CHANGES, *HARDWARE, *FLEET)
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in known:
            raise WorkloadError(f"--with {part.strip()!r}: name=value is needed, with a name of {', '.join(known)}")
        if name in changes:
            raise WorkloadError(f"--with {text!r}: {name} is there twice")
        if name in CHANGES:
            try:
                CHANGES[name][1](value)
            except ValueError as error:
                raise WorkloadError(f"--with {name} must be {error}, not {value!r}") from None
        elif not value:
            raise WorkloadError(f"--with {text!r}: {name} needs a value")
        changes[name] = value
    return changes


def changed(config: SchedulerConfig, changes: Mapping[str, str]) -> SchedulerConfig:
    """Raises ConfigError, in the names of CHANGES, where the outcome contradicts itself."""
    fields: dict[str, Any] = {CHANGES[n][0]: CHANGES[n][1](value) for n, value in changes.items() if n in CHANGES}
    if "groups" in fields:
        fields["groups"] = tuple(replace(group, num_blocks=fields["groups"]) for group in config.groups)
    try:
        return replace(config, **fields)
    except ConfigError as error:
        text = str(error)
        for name, (field, _) in CHANGES.items():
            text = text.replace(field, name)
        raise ConfigError(f"--with: {text}") from None
