"""An SLO on the command line: `--slo ttft=2s,tpot=50ms`."""

from __future__ import annotations

import re
from typing import Any

import click

from headway.bench.slo import LIMITS, Slo
from headway.cli.quantities import Seconds

_PART = re.compile(r"([a-z0-9]+)\s*(?:<=|=|<|:)\s*(.+)")


class Limits(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "limits"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Slo:
        limits: dict[str, float] = {}
        for part in (part.strip() for part in str(value).split(",")):
            match = _PART.fullmatch(part)
            if match is None or match[1] not in LIMITS:
                self.fail(f"{part!r} is not a limit: write ttft=2s, tpot=50ms, gap=200ms or e2e=30s", param, ctx)
            if match[1] in limits:
                self.fail(f"{match[1]} is limited twice", param, ctx)
            limits[match[1]] = Seconds().convert(match[2], param, ctx)
        return Slo(**{f"{name}_s": limit for name, limit in limits.items()})
