"""Quantities on the command line."""

from __future__ import annotations

import math
import re
from typing import Any

import click

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,9}})?) ?({'|'.join(_TIMES)})")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([A-Za-z]{0,3})")


class NamedPath(click.Path):  # type: ignore[type-arg, unused-ignore]
    """A path that is not empty: one that is would be the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("a name is needed, not ''", param, ctx)
        return super().convert(value, param, ctx)


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


class KVTierSize(ByteSize):
    """`dram=2GiB`: a tier's name and size."""

    name = "tier"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, separator, size = str(value).partition("=")
        if name not in ("dram", "ssd") or not separator:
            self.fail(f"{value!r} is not a tier: dram or ssd and its size, as dram=2GiB", param, ctx)
        return name, super().convert(size, param, ctx)


class Seconds(click.FloatRange):
    """More than nothing and less than two weeks: a number of seconds, or one with a unit, as 500ms or 10min."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True, max=1e6)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if match := _TIME.fullmatch(str(value)):
            value = float(match[1]) * _TIMES[match[2]]
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


class Policy(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """Words with hyphens; underscores, as in a step log, are understood too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(str(value).replace("_", "-"), param, ctx))
