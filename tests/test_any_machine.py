"""The same tests pass on a machine that is slow or busy."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=1)
@given(st.none())
def test_no_law_has_a_deadline(_: None) -> None:
    time.sleep(0.3)
