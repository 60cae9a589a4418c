"""An event loop whose clock moves only when nothing is left to do: every delay is exact and takes no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everything waits for something that will not come"
            self.now_s += max(0.0, timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s

    def pass_time(self, seconds: float) -> None:
        """As if a callback had computed for so long."""
        self._virtual.now_s += seconds


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
