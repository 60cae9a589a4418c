"""API keys, tenants and salts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from headway.scheduler.config import ConfigError
from headway.server.auth import Caller, Keys
from headway.server.errors import ApiError
from headway.server.settings import Settings, keys_from
from tests.server.live import MODEL, Live, eventually, serving

KEYS = ("key-of-alice", "key-of-bob")
HI = [{"role": "user", "content": "Hi"}]
BODY = {"model": MODEL, "messages": HI}


@pytest.fixture(scope="module")
def keyed(directory: Path) -> Iterator[Live]:
    with serving(directory, api_keys=KEYS, access_log=True) as live:
        yield live


WRONG = {
    "none": {},
    "wrong": {"authorization": "Bearer key-of-eve"},
    "beginning-of-one": {"authorization": "Bearer key-of-alic"},
    "no-token": {"authorization": "Bearer"},
    "other-scheme": {"authorization": "Basic key-of-alice"},
    "bare": {"authorization": "key-of-alice"},
    "two": {"authorization": "Bearer key-of-alice, Bearer key-of-bob"},
    "latin": {"authorization": "Bearer k\u00e9y"},
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/metrics", "/v1/models", "/nothing", "/openapi.json"])
def test_a064_without_a_good_key(keyed: Live, name: str, path: str) -> None:
    headers = {key: value.encode("latin-1") for key, value in WRONG[name].items()}
    response = keyed.get(path, headers=headers)
    assert response.status_code == 401
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    assert response.headers["www-authenticate"] == "Bearer"


def test_a064_a_key_in_the_address_is_no_key(keyed: Live) -> None:
    assert keyed.get("/v1/models?api_key=key-of-alice&key=key-of-alice").status_code == 401


def test_a064_a_key_of_a_megabyte(keyed: Live) -> None:
    assert keyed.get("/v1/models", headers={"authorization": "Bearer " + "k" * 10_000}).status_code == 401
    assert keyed.get("/v1/models", headers={"authorization": "Bearer " + "k" * 100_000}).status_code == 431


def test_a_good_key(keyed: Live) -> None:
    with openai.OpenAI(base_url=f"{keyed.url}/v1", api_key="key-of-bob", max_retries=0) as client:
        assert client.chat.completions.create(model=MODEL, messages=HI).choices
    eve = openai.OpenAI(base_url=f"{keyed.url}/v1", api_key="key-of-eve", max_retries=0)
    with eve as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    assert keyed.get("/health").status_code == 200


def submit_of(live: Live, key: str, **fields: object) -> tuple[bytes, str | None]:
    headers = {"authorization": f"Bearer {key}"}
    assert live.post("/v1/chat/completions", BODY | fields, headers=headers).status_code == 200
    return live.engine.submits[-1].salt, live.engine.submits[-1].session


def test_a089_prefix_cache_12_salts(keyed: Live) -> None:
    alice, bob = KEYS
    salts = {
        submit_of(keyed, key, **fields)[0]
        for key in KEYS
        for fields in ({}, {"cache_salt": "a"}, {"cache_salt": "b"}, {"cache_salt": "key-of-bob"}, {"cache_salt": " "})
    }
    assert len(salts) == 10
    assert all(len(salt) == 16 for salt in salts)
    assert submit_of(keyed, alice, cache_salt="a") == submit_of(keyed, alice, cache_salt="a")
    # Nothing else in the body says who somebody is.
    assert submit_of(keyed, bob, user="alice", tenant="alice", salt="x")[0] == submit_of(keyed, bob)[0]


def test_sessions_of_two_tenants_never_meet(keyed: Live) -> None:
    fields = ("session_id", "prompt_cache_key")
    sessions = {submit_of(keyed, key, **{field: "s"})[1] for key in KEYS for field in fields}
    assert len(sessions) == 2
    assert submit_of(keyed, KEYS[0])[1] is None
    both = submit_of(keyed, KEYS[0], session_id="a", prompt_cache_key="b")
    assert both == submit_of(keyed, KEYS[0], session_id="a")


def test_without_keys_or_salt_there_is_one_root(live: Live) -> None:
    live.chat()
    live.chat(cache_salt="x")
    live.chat(cache_salt="x")
    plain, first, second = (submit.salt for submit in live.engine.submits)
    assert plain == b""
    assert first == second != b""


def test_a091_fields_do_not_run_into_each_other() -> None:
    secret = bytes(32)
    assert Caller(b"org_1", secret).salt("2345") != Caller(b"org_12345", secret).salt("")
    assert Caller(b"org_1", secret).salt("") != Caller(b"org_1", secret).salt(None)
    assert Caller(b"org_1", secret).salt("x") != Caller(b"org_1", b"\1" * 32).salt("x")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith(("headway", "uvicorn"))]


def test_a064_a069_keys_are_never_logged(keyed: Live, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        keyed.get("/v1/models?api_key=key-of-alice", headers={"authorization": "Bearer key-of-bob"})
        keyed.get("/nothing%0aGET%20/%20200%1b[31m", headers={"authorization": "Bearer key-of-bob"})
        eventually(lambda: len(logged(caplog)) == 2)
    lines = logged(caplog)
    assert not any("key-of" in line for line in lines)
    assert not any(char in line for line in lines for char in "\n\x1b")
    assert "200" in lines[0]
    assert "404" in lines[1]
    assert "key-of" not in repr(Settings(model="m", directory=Path(), api_keys=KEYS))


def test_no_access_log_unless_asked_for(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        live.get("/v1/models")
        live.chat()
    assert not logged(caplog)


def test_keys_from_option_and_environment() -> None:
    assert keys_from(("a", "b"), "b, c,,") == ("a", "b", "c")
    assert keys_from((), None) == ()
    for wrong in (" x", "", "k\u00e9y", "a\nb"):
        with pytest.raises(ConfigError, match="api_keys"):
            Settings(model="m", directory=Path(), api_keys=(wrong,))


def test_every_key_is_compared() -> None:
    keys = Keys(KEYS)
    assert keys.tenant("Bearer key-of-alice") != keys.tenant("bearer key-of-bob")
    with pytest.raises(ApiError):
        keys.tenant("Bearer key-of-alicf")
    assert Keys(()).tenant(None) == b""
