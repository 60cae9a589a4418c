"""Transfers over links that carry one after another, and what is left of the order when some break off."""

from __future__ import annotations

from functools import partial

import pytest

from headway.simulator.links import End, Link, Transfer
from headway.simulator.world import World


class Shared:
    """A sender with one link, a byte a nanosecond, to receivers `a` and `b`: 100 bytes to each in turn."""

    def __init__(self, latency_ns: int = 0) -> None:
        self.world = World()
        self.link = Link(self.world, 1e9, latency_ns / 1e9)
        self.sender, self.a, self.b = End(), End(), End()
        self.ended: dict[str, tuple[bool, int]] = {}
        for name, end in (("a1", self.a), ("b1", self.b), ("a2", self.a), ("b2", self.b)):
            self.send(name, end)

    def send(self, name: str, end: End) -> None:
        Transfer((self.sender, end), 100, partial(self._noted, name)).over(self.link)

    def _noted(self, name: str, ok: bool) -> None:
        self.ended[name] = (ok, self.world.now_ns)

    def run(self, at_ns: int, *actions: object) -> dict[str, tuple[bool, int]]:
        for action in actions:
            self.world.at(at_ns, 0, action)  # type: ignore[arg-type]
        self.world.run()
        return self.ended


def test_transfers_go_one_after_another() -> None:
    assert Shared(5).run(0) == {"a1": (True, 105), "b1": (True, 205), "a2": (True, 305), "b2": (True, 405)}


def test_what_waits_behind_a_transfer_that_broke_off_goes_at_once() -> None:
    shared = Shared()
    found = shared.run(30, shared.a.fail, partial(shared.send, "b3", shared.b))
    assert found == {"a1": (False, 30), "a2": (False, 30), "b1": (True, 130), "b2": (True, 230), "b3": (True, 330)}
    assert shared.link.sent_bytes == 300


@pytest.mark.parametrize(("at_ns", "b2_ns"), [(120, 350), (270, 420), (330, 450)])
def test_what_has_begun_goes_on_as_it_was(at_ns: int, b2_ns: int) -> None:
    """The first has left and is on its way; the third is next, half out, or on its way."""
    shared = Shared(50)
    found = shared.run(at_ns, shared.a.fail)
    assert found["b1"] == (True, 250)
    assert found["a2"] == (False, at_ns)
    assert found["b2"] == (True, b2_ns)


def test_when_the_sender_fails_its_link_is_free_again() -> None:
    shared = Shared()
    found = shared.run(30, shared.sender.fail, shared.sender.recover, partial(shared.send, "b3", shared.b))
    assert found == dict.fromkeys(("a1", "b1", "a2", "b2"), (False, 30)) | {"b3": (True, 130)}
