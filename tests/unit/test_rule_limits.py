"""What the limit of a queue allows, slice by slice."""

from __future__ import annotations

import math
from collections.abc import Collection

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation import AllRules, HeldBack, KnownRules, RuleLimits
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import Mode, QueueLimit, Regulation

MAIL, OTHER = QueueKey("default", "mail"), QueueKey("default", "other")
NOW_MS = 1_000_000


class Rig:
    def __init__(self, limit: QueueLimit, *, is_from_before: bool = False) -> None:
        self.known, self.hand = KnownRules(), HandCount()
        self.opened: list[Collection[QueueKey]] = []
        rules = Regulation(1, limit=limit)
        self.known.read(AllRules({MAIL: rules} if is_from_before else {}), self.known.life)
        self.known.heard(MAIL, rules)
        self.limits = RuleLimits(self.known, lambda _: self.hand, self.opened.append)

    def send(self, tasks: int, now_ms: int = NOW_MS) -> int:
        """As many as are allowed."""
        allowed = self.limits.allow(MAIL, tasks, now_ms).tasks
        if allowed:
            self.hand.open += allowed
            self.limits.sent(Slice(MAIL, now_ms, allowed, 1, 100, is_dry=False, is_all=False))
        return allowed


def test_who_waits_for_an_end_is_told_of_it_once() -> None:
    rig = Rig(QueueLimit(max_in_hand=3))
    assert (rig.send(10), rig.send(10)) == (3, 0)
    assert rig.limits.allow(MAIL, 10, NOW_MS) == Allowance(0, math.inf)
    assert rig.limits.held_back(MAIL, NOW_MS) == [HeldBack(math.inf, "")]
    rig.hand.less(1)
    rig.hand.less(1)
    assert rig.opened == [{MAIL}]
    assert rig.send(10) == 2


def test_the_least_of_rate_and_hand_counts() -> None:
    rig = Rig(QueueLimit(5, 10, 1_000, 20))
    assert rig.send(100) == 5
    rig.hand.less(5)
    assert rig.send(100) == 5
    rig.hand.less(5)
    # Of the burst ten are left, and five may be in hand.
    assert [rig.send(3), rig.send(3)] == [3, 2]


def test_nothing_is_reserved_for_what_is_not_sent() -> None:
    rig = Rig(QueueLimit(0, 10, 1_000, 2))
    for _ in range(5):
        assert rig.limits.allow(MAIL, 100, NOW_MS).tasks == 2
    assert rig.send(2) == 2
    assert rig.limits.allow(MAIL, 100, NOW_MS) == Allowance(0, NOW_MS + 100)
    assert rig.limits.held_back(MAIL, NOW_MS) == [HeldBack(NOW_MS + 100, "")]
    assert rig.limits.held_back(OTHER, NOW_MS) == []


def test_after_a_start_the_burst_is_empty() -> None:
    rig = Rig(QueueLimit(0, 10, 1_000, 50), is_from_before=True)
    assert (rig.send(100), rig.send(100, NOW_MS + 100), rig.send(100, NOW_MS + 300)) == (0, 1, 2)


def test_a_pause_takes_nothing_from_the_burst() -> None:
    rig = Rig(QueueLimit(0, 10, 1_000, 5))
    rig.known.heard(MAIL, Regulation(2, Mode.PAUSED, limit=QueueLimit(0, 10, 1_000, 5)))
    assert rig.send(5) == 0
    rig.known.heard(MAIL, Regulation(3, limit=QueueLimit(0, 10, 1_000, 5)))
    assert rig.send(9) == 5


class Shared:
    """Queues that list limits with names, and what workers have of each."""

    def __init__(self, *limits: tuple[str, QueueLimit], **queues: list[str]) -> None:
        self.known = KnownRules()
        self.known.read(AllRules(), self.known.life)
        self.opened: set[QueueKey] = set()
        for name, limit in limits:
            self.known.heard_limit(LimitName("default", name), NamedLimit(1, limit))
        self.hands = {QueueKey("default", queue): HandCount() for queue in queues}
        for queue, names in queues.items():
            self.known.heard(QueueKey("default", queue), Regulation(1, limits=tuple(names)))
        self.limits = RuleLimits(self.known, self.hands.get, self.opened.update)

    def send(self, queue: str, tasks: int, now_ms: int = NOW_MS) -> int:
        """As many as are allowed."""
        key = QueueKey("default", queue)
        allowed = self.limits.allow(key, tasks, now_ms).tasks
        if allowed:
            self.hands[key].open += allowed
            self.limits.sent(Slice(key, now_ms, allowed, 1, 100, is_dry=False, is_all=False))
        return allowed


def test_queues_that_list_a_limit_have_so_many_in_hand_together() -> None:
    rig = Shared(("stripe", QueueLimit(max_in_hand=5)), mail=["stripe"], other=["stripe"])
    assert [rig.send("mail", 3), rig.send("other", 9), rig.send("mail", 1)] == [3, 2, 0]
    assert rig.limits.held_back(MAIL, NOW_MS) == [HeldBack(math.inf, "stripe")]
    # The end of a delivery of another queue lets it go.
    rig.hands[OTHER].less(1)
    assert (rig.opened, rig.send("mail", 9)) == ({MAIL}, 1)


def test_who_is_held_back_takes_from_none_of_its_limits() -> None:
    few, rate = ("few", QueueLimit(max_in_hand=1)), ("rate", QueueLimit(0, 10, 1_000, 4))
    rig = Shared(few, rate, mail=["few", "rate"], other=["rate"])
    assert [rig.send("mail", 9), rig.send("mail", 9)] == [1, 0]
    assert rig.limits.held_back(MAIL, NOW_MS) == [HeldBack(math.inf, "few")]
    # Of the burst of four one is gone, however often it was asked for.
    assert rig.send("other", 9) == 3
    assert rig.limits.held_back(OTHER, NOW_MS) == [HeldBack(NOW_MS + 100, "rate")]


def test_of_limits_that_hold_a_queue_together_each_is_named() -> None:
    few, rate = ("few", QueueLimit(max_in_hand=1)), ("rate", QueueLimit(0, 10, 1_000, 1))
    rig = Shared(few, rate, mail=["few", "rate"])
    assert rig.send("mail", 9) == 1
    assert rig.limits.held_back(MAIL, NOW_MS) == [HeldBack(math.inf, "few"), HeldBack(NOW_MS + 100, "rate")]


def test_of_its_own_limit_and_those_that_it_lists_the_least_counts() -> None:
    rig = Shared(("stripe", QueueLimit(max_in_hand=5)), mail=["stripe"], other=["stripe"])
    rig.known.heard(MAIL, Regulation(2, limit=QueueLimit(max_in_hand=2), limits=("stripe",)))
    assert [rig.send("mail", 9), rig.send("other", 9), rig.send("mail", 9)] == [2, 3, 0]


def test_a_limit_that_is_raised_opens_who_waited_for_it() -> None:
    rig = Shared(("stripe", QueueLimit(max_in_hand=1)), mail=["stripe"], other=["stripe"])
    assert [rig.send("mail", 3), rig.send("other", 3)] == [1, 0]
    rig.known.heard_limit(LimitName("default", "stripe"), NamedLimit(2, QueueLimit(max_in_hand=3)))
    assert rig.limits.changed() == {OTHER}
    assert [rig.send("other", 3), rig.send("mail", 3)] == [2, 0]
    # The new deliveries are watched as well.
    rig.hands[OTHER].less(1)
    assert rig.opened == {MAIL}


def test_a_queue_that_lists_a_limit_later_brings_what_is_in_hand() -> None:
    rig = Shared(("stripe", QueueLimit(max_in_hand=3)), mail=["stripe"], other=[])
    assert rig.send("other", 9) == 9
    rig.known.heard(OTHER, Regulation(2, limits=("stripe",)))
    assert rig.send("mail", 1) == 0
    rig.hands[OTHER].less(7)
    assert (rig.opened, rig.send("mail", 3)) == ({MAIL}, 1)


def test_who_does_not_list_it_any_more_waits_for_it_no_more() -> None:
    rig = Shared(("stripe", QueueLimit(max_in_hand=1)), mail=["stripe"], other=["stripe"])
    assert [rig.send("mail", 1), rig.send("other", 9)] == [1, 0]
    rig.known.heard(OTHER, Regulation(2))
    assert rig.send("other", 9) == 9
    rig.limits.changed()
    assert rig.send("mail", 1) == 0
    rig.hands[MAIL].less(1)
    assert rig.opened == {MAIL}


def test_another_rate_gives_no_second_burst_to_those_that_share_it() -> None:
    rig = Shared(("stripe", QueueLimit(0, 10, 1_000, 4)), mail=["stripe"], other=["stripe"])
    assert rig.send("mail", 9) == 4
    rig.known.heard_limit(LimitName("default", "stripe"), NamedLimit(2, QueueLimit(0, 20, 1_000, 6)))
    assert [rig.send("other", 9), rig.send("mail", 9)] == [2, 0]


def test_a_limit_of_a_later_release_lets_nothing_go() -> None:
    rig = Shared(("stripe", QueueLimit(max_in_hand=5)), mail=["stripe"])
    later = NamedLimit.from_bytes(b'{"revision":2,"limit":[5,0,1000,1],"needs":["tides"]}')
    rig.known.heard_limit(LimitName("default", "stripe"), later)
    assert rig.send("mail", 9) == 0
    assert later.to_bytes() == b'{"revision":2,"limit":[5,0,1000,1],"needs":["tides"]}'
