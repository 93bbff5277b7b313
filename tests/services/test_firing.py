"""What is due is what can be given: asked for anything else, delivery would look again and again for nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from timerd.core.holding import Phase
from timerd.core.taken import QueueKey
from timerd.services.engine.firing import Firing

QUEUE = QueueKey("default", "mails")
DUE_MS = 1_000


class Waiting:
    """One row that is due."""

    def next_ms(self, _: QueueKey) -> int:
        return DUE_MS

    def due_rows(self, _: QueueKey, until_ms: int, most: int) -> int:
        return min(most, int(until_ms >= DUE_MS))

    def head_key(self, _: QueueKey, now_ms: int) -> int | None:
        return DUE_MS if now_ms >= DUE_MS else None


def _firing(phase: Phase) -> Firing:
    machine = SimpleNamespace(phase=phase, rows=SimpleNamespace(waiting=Waiting()))
    scheduler = SimpleNamespace(machines={"one": machine}, opening=(), held=SimpleNamespace())
    return Firing(cast(Any, scheduler), cast(Any, None), cast(Any, None), b"secret")


@pytest.mark.parametrize("phase", [Phase.LOAD, Phase.HOT, Phase.HAND_OVER])
def test_when_something_is_due_and_how_much_agree(phase: Phase) -> None:
    """Also while its partition is loaded, or handed over."""
    firing = _firing(phase)
    is_given = phase is Phase.HOT
    assert firing.next_due_ms(QUEUE) == (DUE_MS if is_given else None)
    assert firing.due_rows(QUEUE, DUE_MS, 10) == int(is_given)
    assert firing.head_key(QUEUE, DUE_MS) == (DUE_MS if is_given else None)
