"""A sweep's points as tasks of a Ray cluster, which somebody has started."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

from headway.simulator.sweep import Ended, Run, SweepError, Values, attempt

CONNECT_S = 5.0
TASKS_A_CORE = 2
"""In the cluster's hands at a time: one that runs and one that is next."""


class RayCluster:
    """A place. Its machines need the same version of headway, and the files that points read at the same paths."""

    def __init__(self, address: str) -> None:
        """Connects: `HOST:PORT`, `ray://HOST:PORT`, or `auto` for the one on this machine. Raises SweepError."""
        try:
            import ray
        except ImportError:
            raise SweepError("--ray needs Ray, which is not installed: pip install 'headway[ray]'") from None
        self._ray: Any = ray
        try:
            _answers(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise SweepError(f"--ray {address}: no cluster there (ray start --head starts one): {reason}") from None

    def __call__(self, run: Run, points: Sequence[Values]) -> Iterator[tuple[int, Ended]]:
        ray, indexes = self._ray, dict[Any, int]()
        task = ray.remote(num_cpus=1, max_retries=1)(attempt_there)
        shared, known, todo = ray.put(run), version("headway"), iter(enumerate(points))
        room = max(1, int(ray.cluster_resources().get("CPU", 1))) * TASKS_A_CORE
        try:
            while True:
                while len(indexes) < room and (following := next(todo, None)) is not None:
                    indexes[task.remote(shared, following[1], known)] = following[0]
                if not indexes:
                    return
                for reference in ray.wait(list(indexes))[0]:
                    yield indexes.pop(reference), self._taken(reference)
        finally:
            for reference in indexes:
                ray.cancel(reference, force=True)
            ray.shutdown()

    def _taken(self, reference: Any) -> Ended:
        try:
            ended: Ended = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            return Ended(error=f"lost by the cluster: {reason[0][:500]}", lasting=False)
        return ended


def _answers(address: str) -> None:
    """Ray itself would try for minutes. Raises OSError."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), CONNECT_S).close()


def attempt_there(run: Run, values: Values, known: str) -> Ended:
    """On a machine of the cluster."""
    if version("headway") != known:
        return Ended(error=f"a machine of the cluster has headway {version('headway')}, not {known}", lasting=False)
    return attempt(run, values)
