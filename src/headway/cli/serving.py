"""From options to a running server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from headway.cli.one_line import INTERRUPTED, in_options
from headway.cli.preconditions import ReadIf, given_options, refuse_unread
from headway.cli.tier_options import KEPT
from headway.engine.errors import ModelError
from headway.engine.model_store import display_name, resolve_model
from headway.engine.progress import terminal_progress
from headway.engine.settings import MEMORY, EngineSettings, KVTier
from headway.scheduler.config import ConfigError, Speculation
from headway.server.app import build_app
from headway.server.binding import bind, listen, url
from headway.server.engine_child import EngineUnusable
from headway.server.engine_link import EngineLink
from headway.server.engine_patience import Patience
from headway.server.engine_room import QueueLimits
from headway.server.limits import Limits
from headway.server.serve import BACKLOG, serve
from headway.server.settings import Settings, keys_from

_KEYS = "HEADWAY_API_KEYS"
_READ_IF = (
    ReadIf(("kv_tiers", "kv_ttl"), lambda o: o["prefix_cache"], KEPT),
    ReadIf(("kv_tier_dir",), lambda o: any(tier != MEMORY for tier, _ in o["kv_tiers"]), "only with --kv-tier ssd=…"),
    ReadIf(("draft_depth",), lambda o: o["speculation"] != "off", "only with --speculation ngram"),
)
_FIELDS = ("block_size", "kv_bytes", "kv_tier", "max_context", "max_running", "max_step_tokens")
_OPTIONS = {field: f"--{field.replace('_', '-')}" for field in _FIELDS}


def serve_model(*, model: str | None, **options: Any) -> None:
    """Returns when the server was asked to stop. Raises ClickException for what a user can mend."""
    refuse_unread(options, given_options(), _READ_IF)
    try:
        with bind(options["host"], options["port"]) as listener:
            with terminal_progress() as report:
                directory = resolve_model(model, report)
            name = options["served_model_name"] or display_name(model)
            settings = _settings(name, directory, options)
            link = _link(_engine_settings(name, directory, options), options)
            if settings.access_log:
                logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
            asyncio.run(_run(link, settings, listener))
    except (ConfigError, ModelError, EngineUnusable) as error:
        raise click.ClickException(in_options(str(error), _OPTIONS)) from None
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


async def _run(link: EngineLink, settings: Settings, listener: Any) -> None:
    try:
        with _loading(settings.model):
            await link.start()
        app = build_app(link, settings)
        listen(listener, settings.host, BACKLOG)
        with contextlib.suppress(OSError):  # Nobody reads it, or its disk is full: no reason not to serve.
            click.echo(f"Headway serves {settings.model} on {url(listener, settings.host)}")
        await serve(app, settings, listener)
    finally:
        await link.close()


def _settings(name: str, directory: Path, options: dict[str, Any]) -> Settings:
    return Settings(
        model=name,
        directory=directory,
        host=options["host"],
        api_keys=keys_from(options["api_keys"], os.environ.get(_KEYS)),
        allowed_hosts=options["allowed_hosts"],
        access_log=options["access_log"],
        limits=Limits(drain_s=options["drain_s"]),
    )


def _engine_settings(name: str, directory: Path, options: dict[str, Any]) -> EngineSettings:
    drafts = Speculation(max_depth=options["draft_depth"]) if options["speculation"] == "ngram" else None
    step_log: Path | None = options["step_log"]
    return EngineSettings(
        model_dir=str(directory.resolve()),
        name=name,
        dtype=options["dtype"],
        device=options["device"],
        block_size=options["block_size"],
        max_running=options["max_running"],
        max_step_tokens=options["max_step_tokens"],
        max_context=options["max_context"],
        kv_bytes=options["kv_bytes"],
        kv_tiers=tuple(KVTier(name, size, str(_tier_directory(options))) for name, size in options["kv_tiers"]),
        kv_ttl_s=options["kv_ttl"],
        prefix_caching=options["prefix_cache"],
        speculation=drafts,
        batching=options["batching"],
        reservation=options["reservation"].replace("-", "_"),
        max_queued_requests=options["max_queued_requests"],
        max_queued_tokens=options["max_queued_tokens"],
        step_log=str(step_log.resolve()) if step_log else None,
    )


def _tier_directory(options: dict[str, Any]) -> Path:
    chosen: Path = options["kv_tier_dir"] or Path(tempfile.gettempdir())
    return chosen.resolve()


def _link(settings: EngineSettings, options: dict[str, Any]) -> EngineLink:
    # -P: a file in the current directory can't stand in for a module.
    command = [
        sys.executable,
        "-P",
        "-m",
        "headway.engine.process",
        "--settings",
        msgspec.json.encode(settings).decode(),
    ]
    return EngineLink(
        command,
        QueueLimits(options["max_queued_requests"], options["max_queued_tokens"]),
        Patience(stall_s=options["stall_s"]),
        env={name: value for name, value in os.environ.items() if name != _KEYS},
    )


@contextlib.contextmanager
def _loading(name: str) -> Iterator[None]:
    """A spinner on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"Loading {name}"):
        yield
