"""What workers came back with: known by when it was first named here."""

from timerd.core.dispatch.before_restart import BeforeRestart
from timerd.core.dispatch.hand_count import HandCount
from timerd.model.identity import RowKey, delivery_id_of

KEY = RowKey(1_000, b"digest of sixteen"[:16], 0)
ID = delivery_id_of(KEY.digest, KEY.version)


def test_who_came_back_after_its_lease_is_told_from_who_was_there_before() -> None:
    """The failure of a lease that ended at 5,000 counts no more when its worker has come back since."""
    before = BeforeRestart(lambda *_: HandCount())
    before.hold(ID, KEY.version, 4_000, 7_000, may_begin=True)
    assert not before.came_since(KEY, 5_000)
    assert before.give_up(ID, KEY.version)
    before.hold(ID, KEY.version, 5_004, 8_004, may_begin=True)
    assert before.came_since(KEY, 5_000)


def test_another_attempt_is_not_what_came_back() -> None:
    before = BeforeRestart(lambda *_: HandCount())
    before.hold(ID, KEY.version, 5_004, 8_004, may_begin=True)
    assert not before.came_since(KEY._replace(version=KEY.version + 1), 5_000)


def test_a_later_attempt_that_came_back_is_told_by_when_it_was_named_itself() -> None:
    before = BeforeRestart(lambda *_: HandCount())
    before.hold(ID, KEY.version, 100, 3_100, may_begin=True)
    later = KEY._replace(version=KEY.version + 1)
    before.hold(delivery_id_of(later.digest, later.version), later.version, 5_004, 8_004, may_begin=True)
    assert before.came_since(later, 5_000)
