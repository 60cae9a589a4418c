"""Which pools answer calls to which model."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from headway.workload.call import Call, WorkloadError

ANY = ""
"""What a pool serves that takes whatever no other pool claims."""


class ModelRoutes:
    """`serves`: for each pool a pattern (`*` stands for any text) of the models that it answers for, or ANY."""

    def __init__(self, serves: Sequence[str]) -> None:
        self.patterns = list(dict.fromkeys(serves))

    def of(self, call: Call) -> str:
        """The first pattern that fits. Raises WorkloadError if none does."""
        for pattern in self.patterns:
            if pattern != ANY and fnmatchcase(call.model, pattern):
                return pattern
        if ANY in self.patterns:
            return ANY
        asked = f"asks for {call.model!r}" if call.model else "names no model"
        raise WorkloadError(f"call {call.id} {asked}, and pools serve {', '.join(self.patterns)} only")
