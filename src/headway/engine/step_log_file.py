"""Where a real engine's step log goes."""

from __future__ import annotations

import sys
from pathlib import Path


class StepLogFile:
    """Unbuffered, so that it is complete up to the step in which an engine dies. A full disk ends the log, not the
    serving.
    """

    def __init__(self, path: Path, life: int) -> None:
        """Raises OSError when the file can't be created, or is there already and not of an earlier life."""
        self.path = path.with_name(f"{path.name}.{life}") if life else path
        self._file = self.path.open("wb" if life else "xb", buffering=0)

    def write(self, line: bytes) -> None:
        if self._file.closed:
            return
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            print(f"headway engine: the step log {self.path} ends here: {error.strerror}", file=sys.stderr)
            self._file.close()
