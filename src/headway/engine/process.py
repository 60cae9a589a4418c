"""The engine process: `python -m headway.engine.process --settings JSON --life N --fd N`."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec

from headway.engine.errors import ModelError
from headway.engine.loop import Brain
from headway.engine.messages import PROTOCOL, Failed, Ready
from headway.engine.run import OK, run_engine, wire_from_fd
from headway.engine.settings import EngineSettings, scheduler_config
from headway.engine.step_log_file import StepLogFile
from headway.engine.wire import PeerGone, Wire
from headway.scheduler.config import ConfigError
from headway.scheduler.contract import Executor
from headway.scheduler.scheduler import Scheduler
from headway.scheduler.step_log import Recorder
from headway.scheduler.step_records import VERSION, Header

UNUSABLE = 1


class Unusable(Exception):
    """This engine can't start; the text is one line for the user."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway.engine.process")
    parser.add_argument("--settings", required=True)
    parser.add_argument("--life", type=int, default=0, help="how many engines the server had before this one")
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args(arguments)
    wire = wire_from_fd(options.fd)
    try:
        start = _prepare(_settings(options.settings), options.life)
    except (Unusable, ModelError, ConfigError) as error:
        return _give_up(wire, str(error))
    return start(wire)


def _settings(text: str) -> EngineSettings:
    try:
        settings = msgspec.json.decode(text, type=EngineSettings)
    except msgspec.MsgspecError as error:
        raise Unusable(f"the engine's settings: {error}") from None
    if settings.protocol != PROTOCOL:
        raise Unusable(f"the server speaks protocol {settings.protocol} and this engine speaks {PROTOCOL}")
    return settings


def _prepare(settings: EngineSettings, life: int) -> Callable[[Wire], int]:
    # Only the process that runs a model pays for importing torch.
    from headway.engine.kv_tiers import KVTiers, block_bytes, open_store
    from headway.engine.loading import load

    model = load(
        Path(settings.model_dir),
        dtype=settings.dtype,
        device=settings.device,
        block_size=settings.block_size,
        max_running=settings.max_running,
        max_context=settings.max_context,
        kv_bytes=settings.kv_bytes,
    )
    on_cpu = model.device == "cpu"
    cache = model.executor.cache
    tiers = KVTiers(cache, {tier.name: open_store(cache, tier) for tier in settings.kv_tiers})
    config = scheduler_config(settings, model.groups, model.max_context, on_cpu, block_bytes(cache))
    ready = Ready(
        PROTOCOL,
        settings.name,
        model.shape.vocab,
        model.max_context,
        model.block_size,
        model.num_blocks,
        model.max_running,
        model.dtype,
        model.device,
    )
    brain = _logged(Scheduler(config, secrets.token_bytes(16)), settings, ready, life)
    executor: Executor = model.executor
    return lambda wire: run_engine(wire, ready, brain, executor, 1 if on_cpu else 2, tiers)


def _logged(scheduler: Scheduler, settings: EngineSettings, ready: Ready, life: int) -> Brain:
    if settings.step_log is None:
        return scheduler
    try:
        file = StepLogFile(Path(settings.step_log), life)
    except OSError as error:
        raise Unusable(f"the step log {settings.step_log} can't be written: {error.strerror}") from None
    body = {"model": ready.model, "dtype": ready.dtype, "device": ready.device, "torch": version("torch")}
    return Recorder(scheduler, file.write, Header(VERSION, scheduler.config, version("headway"), body))


def _give_up(wire: Wire, reason: str) -> int:
    try:
        wire.send(Failed(" ".join(reason.split())))
    except PeerGone:
        return OK
    return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
