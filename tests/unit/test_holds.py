"""Limits that are held since a handler was throttled."""

from __future__ import annotations

from timerd.core.dispatch import Allowance, HandCount
from timerd.core.regulation import (
    AdaptiveLimits,
    AllRules,
    Breakers,
    HeldBack,
    Holds,
    KeyHolds,
    KnownRules,
    Standstills,
    Why,
    labels_of,
)
from timerd.core.taken import QueueKey
from timerd.model.pushback import Pushback
from timerd.model.regulations import Mode, Regulation

CHARGES, REFUNDS, MAILS = (QueueKey("default", each) for each in ("charges", "refunds", "mails"))
NOW_MS = 1_000_000


def rules() -> KnownRules:
    known = KnownRules()
    known.read(AllRules(), known.life)
    for queue in (CHARGES, REFUNDS):
        known.heard(queue, Regulation(1, limits=("stripe", "mail")))
    return known


def test_a_queue_without_rules_is_held_by_itself() -> None:
    holds = Holds(rules())
    assert holds.hold(MAILS, "", Pushback("", 30_000), NOW_MS) == ""
    assert holds.allow(MAILS, 5, NOW_MS) == Allowance(0, NOW_MS + 30_000)
    assert holds.allow(MAILS, 5, NOW_MS + 30_000) == Allowance(5, NOW_MS + 30_000)
    assert holds.allow(CHARGES, 5, NOW_MS) == Allowance(5, NOW_MS)


def test_a_limit_holds_all_queues_that_list_it_and_no_other() -> None:
    holds = Holds(rules())
    holds.hold(CHARGES, "", Pushback("stripe", 1_000), NOW_MS)
    assert holds.held_back(REFUNDS, NOW_MS) == HeldBack(NOW_MS + 1_000, "stripe", Why.THROTTLED)
    assert holds.held_back(MAILS, NOW_MS) is None
    assert holds.held_back(QueueKey("other", "charges"), NOW_MS) is None


def test_the_latest_instant_counts() -> None:
    holds = Holds(rules())
    for limit, after_ms in (("stripe", 5_000), ("stripe", 1_000), ("mail", 7_000), ("", 6_000)):
        holds.hold(CHARGES, "", Pushback(limit, after_ms), NOW_MS)
    assert holds.held_until_ms(labels_of(CHARGES, "stripe"), NOW_MS) == NOW_MS + 5_000
    assert holds.held_back(CHARGES, NOW_MS) == HeldBack(NOW_MS + 7_000, "mail", Why.THROTTLED)


def test_a_limit_that_the_queue_does_not_list_holds_nothing_and_says_so() -> None:
    holds = Holds(rules())
    assert "which the queue 'mails' does not list" in holds.hold(MAILS, "", Pushback("stripe", 1_000), NOW_MS)
    assert holds.held_back(CHARGES, NOW_MS) is None
    assert not holds.pushed_back


def test_what_is_over_is_forgotten() -> None:
    holds = Holds(rules())
    for n in range(1_000):
        holds.hold(QueueKey("default", f"queue{n}"), "", Pushback("", 1), NOW_MS + 10 * n)
    assert len(holds._until_ms) == 1
    assert len(holds.pushed_back) == 200


def test_other_instances_are_asked_for_no_credit_meanwhile() -> None:
    known = rules()
    adaptive = AdaptiveLimits(known, lambda _: HandCount(), lambda _: None)
    still = Standstills(known, Breakers(known, lambda _: HandCount(), lambda _: None, ""), adaptive)
    still.holds.hold(CHARGES, "", Pushback("stripe", 1_000), NOW_MS)
    assert [still.opens_ms(queue, NOW_MS) for queue in (REFUNDS, MAILS)] == [NOW_MS + 1_000, NOW_MS]
    known.heard(REFUNDS, Regulation(2, Mode.PAUSED, NOW_MS + 9_000, limits=("stripe",)))
    assert still.opens_ms(REFUNDS, NOW_MS) == NOW_MS + 9_000


def test_by_key_nothing_else_of_the_queue_is_held() -> None:
    """Unless the keys of the queue are not told apart."""
    holds, held = Holds(rules()), KeyHolds()

    def holds_key(queue: QueueKey, limit: str, limit_key: str, until_ms: int, now_ms: int) -> bool:
        assert limit == ""
        if queue == CHARGES:
            held.hold(queue, limit_key, until_ms, now_ms)
        return queue == CHARGES

    holds.holds_keys_by(holds_key)
    for queue, after_ms in ((CHARGES, 5_000), (CHARGES, 1_000), (MAILS, 1_000)):
        assert holds.hold(queue, "acme", Pushback("", after_ms, by_key=True), NOW_MS) == ""
    assert holds.held_back(CHARGES, NOW_MS) is None
    assert holds.held_back(MAILS, NOW_MS) == HeldBack(NOW_MS + 1_000, "", Why.THROTTLED)
    assert held.until_ms(CHARGES, "acme", NOW_MS + 4_999) == NOW_MS + 5_000
    assert held.until_ms(CHARGES, "acme", NOW_MS + 5_000) is None
    assert held.until_ms(CHARGES, "initech", NOW_MS) is None


def test_keys_that_are_held_no_more_are_forgotten() -> None:
    held = KeyHolds()
    for n in range(5_000):
        held.hold(CHARGES, f"key{n}", NOW_MS + n + 1, NOW_MS + n)
    assert len(held._until_ms) <= 1_024
