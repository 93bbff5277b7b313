"""What workers bring from before a restart, as it counts."""

from __future__ import annotations

import math

from timerd.core.dispatch import BroughtBack, HandCount
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Place

MAIL = QueueKey("default", "mail")
PLACE = Place(Partition(0, 0, 0), RowKey(1, b"d" * 16, 1))
NOW_MS = 1_000_000


class Rig:
    def __init__(self) -> None:
        self.hand, self.told = HandCount(), 0
        self.brought = BroughtBack(lambda *_: self.hand)

    def watch(self) -> None:
        self.hand.on_less = self.tell

    def tell(self) -> None:
        self.told += 1


def test_until_workers_are_back_and_all_is_looked_up_nobody_knows() -> None:
    brought = Rig().brought
    brought.begin(NOW_MS + 5_000)
    assert brought.doubt_ms(NOW_MS) == NOW_MS + 5_000
    brought.hold(b"one", PLACE, NOW_MS + 30_000)
    assert brought.doubt_ms(NOW_MS + 4_999) == NOW_MS + 5_000
    assert (brought.unplaced(), brought.doubt_ms(NOW_MS + 5_000)) == ([(b"one", PLACE)], math.inf)
    brought.place(b"one", MAIL)
    assert brought.doubt_ms(NOW_MS + 5_000) == NOW_MS + 5_000


def test_it_counts_from_when_its_queue_is_known_until_its_lease_is_over() -> None:
    rig = Rig()
    rig.brought.hold(b"one", PLACE, NOW_MS + 30_000)
    assert rig.hand.open == 0
    rig.brought.place(b"one", MAIL)
    assert (rig.hand.open, rig.brought.next_ms()) == (1, NOW_MS + 30_000)
    # Its worker has extended it.
    rig.brought.hold(b"one", PLACE, NOW_MS + 50_000)
    rig.brought.lapse(NOW_MS + 30_000)
    assert (rig.hand.open, rig.brought.next_ms()) == (1, NOW_MS + 50_000)
    rig.watch()
    rig.brought.lapse(NOW_MS + 50_000)
    assert (rig.hand.open, rig.told, rig.brought.next_ms()) == (0, 1, math.inf)
    # It is heard of after all.
    rig.brought.hold(b"one", PLACE, NOW_MS + 90_000)
    assert (rig.hand.open, rig.hand.brought) == (1, 1)


def test_an_end_counts_once_and_is_told() -> None:
    rig = Rig()
    for each in (b"one", b"two"):
        rig.brought.hold(each, PLACE, NOW_MS + 30_000)
        rig.brought.place(each, MAIL)
    rig.watch()
    rig.brought.over(b"one")
    rig.brought.over(b"one")
    rig.brought.lapse(NOW_MS + 30_000)
    rig.brought.over(b"two")
    assert (rig.hand.open, rig.hand.brought, rig.told) == (0, 0, 1)


def test_one_whose_row_is_gone_holds_nobody_up() -> None:
    rig = Rig()
    rig.brought.hold(b"one", PLACE, NOW_MS + 30_000)
    rig.brought.place(b"one", None)
    rig.brought.hold(b"two", PLACE, NOW_MS + 30_000)
    rig.brought.over(b"two")
    rig.brought.place(b"two", MAIL)
    assert (rig.hand.open, rig.brought.doubt_ms(NOW_MS)) == (0, NOW_MS)
