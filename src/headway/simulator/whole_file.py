"""A file that is written as a run goes, and that appears under its name only when it is whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from headway.workload.call import WorkloadError


class WholeFile(ABC):
    """A context manager: leaving it with an error other than KeyboardInterrupt leaves no file behind."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")

    @abstractmethod
    def _close(self, whole: bool) -> None:
        """Where the file is to be whole, writes what is missing; closes it. May raise OSError."""

    def _unwritable(self, error: OSError) -> WorkloadError:
        return WorkloadError(f"{self._path}: {error.strerror or error}")

    def _discard(self) -> None:
        with suppress(OSError):
            self._part.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        whole = kind is None or issubclass(kind, KeyboardInterrupt)
        try:
            self._close(whole)
            if whole:
                self._part.replace(self._path)
        except OSError as failure:
            if whole:
                raise self._unwritable(failure) from None
        finally:
            self._discard()
