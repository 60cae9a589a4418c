"""Quantities that are drawn, on the command line: fixed, a range, or a median and a spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headway.workload.notation import Notation


class Spread(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Left as the text that it is."""

    name = "spread"

    def __init__(self, notation: Callable[[], Notation]) -> None:
        """`notation` is asked for when a value is there: its module is slow to load."""
        self._notation = notation

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from headway.workload.call import WorkloadError

        try:
            self._notation().parse(value)
        except WorkloadError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def lengths() -> Notation:
    from headway.workload.notation import LENGTHS

    return LENGTHS


def counts() -> Notation:
    from headway.workload.notation import COUNTS

    return COUNTS


def times() -> Notation:
    from headway.workload.notation import TIMES

    return TIMES
