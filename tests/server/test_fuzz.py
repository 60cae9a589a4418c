"""Whatever JSON comes in, the answer is a good one or says what is wrong: never a 5xx."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.server.app import App, build_app
from headway.server.settings import Settings
from tests.server.scripted_engine import ScriptedEngine

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
messages = st.lists(
    st.fixed_dictionaries({}, optional={"role": st.sampled_from(["user", "system", "tool", "x"]), "content": values}),
    max_size=3,
)


@pytest.fixture(scope="module")
def app(directory: Path) -> App:
    return build_app(ScriptedEngine(420, lambda _: [[5], [6]]), Settings(model="tiny", directory=directory))


async def call(app: App, path: str, body: bytes) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.post(path, content=body, headers={"content-type": "application/json"})


def document(app: App) -> dict[str, Any]:
    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return await client.get("/openapi.json")

    answer: dict[str, Any] = asyncio.run(get()).json()
    return answer


def test_api_compat_04_the_document_names_what_it_refers_to(app: App) -> None:
    text = json.dumps(document(app))
    schemas = document(app)["components"]["schemas"]
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(schemas)
    assert {"ChatRequest", "CompletionRequest", "ErrorBody"} <= set(schemas)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"])
def test_api_compat_04_no_5xx(app: App, path: str) -> None:
    schema = document(app)["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    fields = document(app)["components"]["schemas"][schema.rsplit("/", 1)[1]]["properties"]
    body = st.fixed_dictionaries(
        {"model": st.just("tiny")},
        optional={name: values for name in fields if name != "model"} | {"messages": messages | values},
    )

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(body)
    def fuzz(fields: dict[str, Any]) -> None:
        response = asyncio.run(call(app, path, json.dumps(fields).encode()))
        assert response.status_code in (200, 400, 404), response.text
        if response.status_code != 200:
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}

    fuzz()


def test_api_compat_04_good_requests_among_them(app: App) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}]}
    assert asyncio.run(call(app, "/v1/chat/completions", json.dumps(body).encode())).status_code == 200
