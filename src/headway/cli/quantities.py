"""Quantities on the command line."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,9}})?) ?({'|'.join(_TIMES)})")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([A-Za-z]{0,3})")


class NamedPath(click.Path):  # type: ignore[type-arg, unused-ignore]
    """What is to be written is named by no other option."""

    is_written = False

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        for other in ctx.command.params if ctx is not None else ():
            if other is not param and self._clashes(other, str(path), ctx):
                self.fail(f"{str(path)!r} is named by {other.opts[0]} too", param, ctx)
        return path

    def _clashes(self, other: click.Parameter, path: str, ctx: click.Context | None) -> bool:
        named = None if ctx is None else ctx.params.get(str(other.name))
        if named is None or not isinstance(other.type, NamedPath) or not (self.is_written or other.type.is_written):
            return False
        paths = named if isinstance(named, tuple) else (named,)
        return Path(path).absolute() in (Path(each).absolute() for each in paths)


class ByteSize(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An integer, or a number with a unit: GB is 10^9 bytes, GiB is 2^30."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value))
        if match is None or match[2] not in _UNITS:
            self.fail(
                f"{value!r} is not a size: a number, alone or with one of {', '.join(list(_UNITS)[1:])}", param, ctx
            )
        size = int(float(match[1]) * _UNITS[match[2]])
        if size < 1:
            self.fail(f"{value!r} is less than one byte", param, ctx)
        return size


class Number(click.FloatRange):
    """Of a range, and not NaN, which is in none and out of none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class Seconds(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A time, less than two weeks by default: a number of seconds, or one with a unit, as 500ms or 10min."""

    name = "seconds"

    def __init__(self, *, least_s: float | None = None, most_s: float = 1e6) -> None:
        """Without `least_s` more than nothing."""
        self._least_s, self._most_s = least_s, most_s

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = self._seconds(value)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a time: seconds, or a number with one of {', '.join(_TIMES)}", param, ctx)
        above = seconds > 0 if self._least_s is None else seconds >= self._least_s
        if not above or seconds > self._most_s:
            least = "above 0" if self._least_s is None else f"from {self._least_s:g}"
            self.fail(f"{value!r} is out of range: {least} to {self._most_s:,.10g} s", param, ctx)
        return seconds

    def _seconds(self, value: Any) -> float:
        """NaN: it is not a time."""
        if match := _TIME.fullmatch(str(value).strip()):
            return float(match[1]) * _TIMES[match[2]]
        try:
            return float(value)
        except ValueError:
            return math.nan


class Policy(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """Words with hyphens; underscores, as in a step log, are understood too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(str(value).replace("_", "-"), param, ctx))
