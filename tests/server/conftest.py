from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.live import Live, serving
from tests.server.model_files import write_model


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def shared_server(directory: Path) -> Iterator[Live]:
    with serving(directory) as live:
        yield live


@pytest.fixture
def live(shared_server: Live) -> Live:
    shared_server.engine.reset()
    return shared_server
