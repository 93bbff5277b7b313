"""When homes are asked for credit again."""

from __future__ import annotations

import math
from typing import cast

import pytest

from timerd.core.dispatch import AHEAD_MS, DeliveryMachine
from timerd.core.taken import QueueKey
from timerd.services.engine.verbs import Firing
from timerd.services.work.asking import Asking

MAILS = QueueKey("default", "mails")
NOW_MS = 100_000


class Home:
    number = 1

    def ask(self, _: object) -> None:
        raise AssertionError("nothing may be sent")

    def give_back(self, _: object) -> None:
        """There is none."""


class FiledElsewhere:
    """A key has its turn, and all that is filed of it is of a partition that gives nothing now."""

    def __init__(self, due_ms: int) -> None:
        self._due_ms = due_ms

    def next_due_ms(self, _: object) -> int:
        return self._due_ms

    def due_rows(self, _: object, __: int, ___: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("due_ms", "again_ms"),
    [
        (0, math.inf),
        (NOW_MS, math.inf),
        (NOW_MS + 1, NOW_MS + 1),
        (NOW_MS + AHEAD_MS, NOW_MS + AHEAD_MS),
        (NOW_MS + AHEAD_MS + 1, NOW_MS + 1),
    ],
)
def test_what_cannot_be_given_is_not_asked_for_again_and_again(due_ms: int, again_ms: float) -> None:
    asking = Asking(DeliveryMachine(bytes(32), 5_000), cast(Firing, FiledElsewhere(due_ms)))
    asking.serve(Home(), MAILS)
    assert asking.look(NOW_MS) == again_ms
