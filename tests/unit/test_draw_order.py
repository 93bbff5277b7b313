"""Which limit keys of a queue draw tokens: as many as the queue may start by its own, in the order of their waiting."""

from __future__ import annotations

from timerd.core.regulation.draw_order import LOOK_MS, DrawOrder
from timerd.core.regulation.limits import UNBOUNDED
from timerd.core.taken import QueueKey

MAIL = QueueKey("default", "mail")


class Rig:
    """A queue that may start `most`; `drawing`: its keys that have asked, or have a token."""

    def __init__(self, most: int) -> None:
        self.most, self.drawing = most, {"acme", "globex", "initech"}
        self.order = DrawOrder(lambda _: self.most, lambda _, limit_key: limit_key in self.drawing)

    def admits(self, limit_key: str, now_ms: float = 0.0) -> bool:
        return self.order.admits(MAIL, limit_key, now_ms)

    def next(self, now_ms: float = 0.0) -> list[str]:
        return list(self.order.next(MAIL, now_ms))


def test_as_many_keys_draw_as_the_queue_may_start() -> None:
    rig = Rig(most=2)
    assert [rig.admits(key) for key in ("acme", "globex", "initech", "hooli")] == [True, True, False, False]
    assert rig.admits("acme"), "a second limit of the key"
    assert rig.next() == []
    rig.most = 3
    assert rig.next() == ["initech"]


def test_where_a_key_has_none_before_long_the_next_one_draws() -> None:
    rig = Rig(most=1)
    assert [rig.admits(key) for key in ("acme", "globex", "initech")] == [True, False, False]
    rig.drawing.discard("acme")
    assert rig.next() == ["globex"]
    rig.drawing.discard("globex")
    assert (rig.admits("hooli", now_ms=LOOK_MS), rig.admits("initech", now_ms=LOOK_MS)) == (True, False)


def test_no_key_draws_for_a_queue_that_may_start_nothing() -> None:
    rig = Rig(most=0)
    assert (rig.admits("acme"), rig.next()) == (False, [])
    assert rig.order.most(MAIL, 7) == 0


def test_keys_of_a_queue_without_a_rate_wait_for_nobody() -> None:
    rig = Rig(UNBOUNDED)
    assert all(rig.admits(f"{n}") for n in range(100))
    assert rig.order.goes_on(MAIL, "7")


def test_who_was_not_admitted_does_not_draw_from_its_next_limit() -> None:
    rig = Rig(most=1)
    assert (rig.admits("acme"), rig.admits("globex")) == (True, False)
    assert (rig.order.goes_on(MAIL, "acme"), rig.order.goes_on(MAIL, "globex")) == (True, False)


def test_by_other_rules_all_of_it_is_said_anew() -> None:
    rig = Rig(most=1)
    assert (rig.admits("acme"), rig.admits("globex")) == (True, False)
    rig.order.forget(MAIL)
    assert (rig.next(), rig.admits("globex")) == ([], True)
