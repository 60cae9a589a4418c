"""Links to real engine processes around the scripted body."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from headway.server.engine_link import EngineLink
from tests.process.linking import ENGINE, PATIENCE, Start


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """`await start(*engine arguments, limits=..., patience=...)`: a link whose engine is ready."""
    links: list[EngineLink] = []

    async def started(*arguments: str, **settings: Any) -> EngineLink:
        link = EngineLink((*ENGINE, *arguments), **{"patience": PATIENCE} | settings)
        links.append(link)
        await link.start()
        return link

    yield started
    for link in links:
        await link.close()
