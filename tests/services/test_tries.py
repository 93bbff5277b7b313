"""What stays broken is tried with pauses, and fills no log."""

from __future__ import annotations

import pytest

from timerd.model.errors import StoreUnavailable
from timerd.services.holding.tries import FIRST_S, LONGEST_S, Tries


def test_pauses_grow_to_a_bound_and_the_log_is_told_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    tries = Tries("ReadPage of here")
    pauses_s = [tries.failed(StoreUnavailable("A page is damaged.", "STORE_UNAVAILABLE")) for _ in range(1_000)]
    assert pauses_s[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert set(pauses_s[4:]) == {LONGEST_S}
    assert len(caplog.messages) == 10
    assert caplog.messages[0] == "ReadPage of here: A page is damaged.; trying again (tries so far: 1)"
