"""Where the rows of a call are placed first, and for how long it asks whoever may have taken them in."""

from __future__ import annotations

import numpy as np
import pytest

import timerd.services.engine.stored_once as stored_once_module
from tests.property.world import World
from timerd.core.protocol.insertion import Inserted
from timerd.core.protocol.message_place import Call, Forgotten, NotTakenIn
from timerd.core.protocol.procedures import Procedure, ReadRegisters
from timerd.model.errors import Invalid, StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup, single_row
from timerd.model.storage import Append
from timerd.model.task import NO_EXTRA, Template
from timerd.services.engine.stored_once import OutcomesForgotten, first_places, stored_once
from timerd.services.engine.verbs import NewTasks

NOW_MS = 1_800_000_000_000
CALL = Call(b"p" * 12, NOW_MS, NOW_MS + 1, 86_400_000)


def tasks(request_time_ms: int) -> NewTasks:
    rows: RowGroup = single_row(RowKey(NOW_MS, b"p" * 16, 0), NOW_MS, Template("default", "q"), b"", NO_EXTRA, 0)
    return NewTasks("default", b"p" * 12, rows, {}, request_time_ms=request_time_ms)


@pytest.mark.parametrize(
    ("request_time_ms", "fire_at_ms", "place_ms"),
    [
        (0, NOW_MS - 7_200_000, NOW_MS - 7_200_000),
        (NOW_MS, NOW_MS - 7_200_000, NOW_MS - 60_000),
        (NOW_MS, NOW_MS - 50, NOW_MS - 50),
        (NOW_MS - 3_600_000, NOW_MS - 7_200_000, NOW_MS - 3_660_000),
        (NOW_MS + 3_600_000, NOW_MS + 9_000_000, NOW_MS + 9_000_000),
    ],
)
def test_the_first_place_follows_from_the_call_alone(request_time_ms: int, fire_at_ms: int, place_ms: int) -> None:
    """However late a try comes; no try came a minute before the call was made."""
    for later_ms in (0, 90_000, 36_000_000):
        found = first_places(tasks(request_time_ms), np.array([fire_at_ms]), NOW_MS + later_ms)
        assert found.tolist() == [place_ms]


def test_a_clock_that_is_far_ahead_does_not_hold_up_what_is_due() -> None:
    with pytest.raises(Invalid, match="more than 60 s ahead") as caught:
        first_places(tasks(NOW_MS + 100_000), np.array([NOW_MS - 1]), NOW_MS)
    assert caught.value.reason == "CLOCKS_DIFFER"


def raising(error: Exception) -> object:
    def place(message: Append, call: Call) -> Procedure[Inserted]:
        yield ReadRegisters(())
        raise error

    return place


async def test_what_nobody_says_he_has_is_unknown_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_once_module, "place_message", raising(NotTakenIn()))
    monkeypatch.setattr(stored_once_module, "DEADLINE_S", 0.05)
    monkeypatch.setattr(stored_once_module, "ASK_AGAIN_S", 0.01)
    with pytest.raises(StoreUnknown, match="has not said"):
        await stored_once(Append(()), CALL, World().runner)


async def test_what_may_have_ended_long_ago_is_refused_for_this_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_once_module, "place_message", raising(Forgotten()))
    with pytest.raises(OutcomesForgotten) as caught:
        await stored_once(Append(()), CALL, World().runner)
    assert (caught.value.reason, caught.value.only_this_try) == ("REQUEST_TOO_OLD", True)
