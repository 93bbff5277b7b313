"""When homes are asked for credit again."""

from __future__ import annotations

import math
from typing import cast

from timerd.core.dispatch import DeliveryMachine
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

    def next_due_ms(self, _: object) -> int:
        return 0

    def due_rows(self, _: object, __: int, ___: int) -> int:
        return 0


def test_what_is_due_and_cannot_be_given_is_not_asked_for_again_and_again() -> None:
    asking = Asking(DeliveryMachine(bytes(32), 5_000), cast(Firing, FiledElsewhere()))
    asking.serve(Home(), MAILS)
    assert asking.look(NOW_MS) == math.inf
