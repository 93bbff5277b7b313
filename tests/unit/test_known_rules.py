"""What an instance knows of the rules of queues, and what may be sent by it."""

from __future__ import annotations

import math

import pytest

from timerd.core.dispatch import Allowance, HandCount
from timerd.core.regulation import AllRules, KnownRules, RuleLimits
from timerd.core.taken import TICKS, QueueKey
from timerd.model.regulations import Mode, Regulation, read_regulation

MAIL, OTHER = QueueKey("default", "mail"), QueueKey("default", "other")
NOW_MS = 1_000_000
PAUSED = Regulation(1, Mode.PAUSED)


def known_of(*rules: Regulation) -> KnownRules:
    known = KnownRules()
    known.read(AllRules(), known.life)
    for each in rules:
        known.heard(MAIL, each)
    return known


def limits_of(known: KnownRules) -> RuleLimits:
    return RuleLimits(known, lambda _: HandCount(), lambda _: None)


def test_nothing_is_sent_before_the_rules_were_read_but_what_an_instance_gives_itself() -> None:
    known = KnownRules()
    limit = limits_of(known)
    assert limit.allow(MAIL, 9, NOW_MS) == Allowance(0, math.inf)
    assert limit.allow(TICKS, 9, NOW_MS) == Allowance(9, NOW_MS)
    # Who asked meanwhile is looked at again.
    assert known.read(AllRules(), known.life) == {MAIL}
    assert limit.allow(MAIL, 9, NOW_MS) == Allowance(9, NOW_MS)


@pytest.mark.parametrize(
    ("mode", "sends", "takes_in"),
    [
        (Mode.RUNNING, True, True),
        (Mode.PAUSED, False, True),
        (Mode.DRAINING, True, False),
        (Mode.STOPPED, False, False),
    ],
)
def test_the_mode_says_what_a_queue_does(mode: Mode, sends: bool, takes_in: bool) -> None:
    known = known_of(Regulation(1, mode))
    assert limits_of(known).allow(MAIL, 9, NOW_MS).tasks == (9 if sends else 0)
    assert known.mode(MAIL, NOW_MS).takes_in == takes_in
    assert limits_of(known).allow(OTHER, 9, NOW_MS).tasks == 9


def test_a_mode_with_an_end_is_over_at_that_instant_and_not_before() -> None:
    limit = limits_of(known_of(Regulation(1, Mode.PAUSED, until_ms=NOW_MS)))
    assert limit.allow(MAIL, 9, NOW_MS - 1) == Allowance(0, NOW_MS)
    assert limit.allow(MAIL, 9, NOW_MS) == Allowance(9, NOW_MS)


def test_what_comes_late_changes_nothing() -> None:
    known = known_of(Regulation(7))
    assert not known.heard(MAIL, Regulation(6, Mode.PAUSED))
    assert not known.read(AllRules({MAIL: Regulation(5, Mode.PAUSED)}), known.life)
    assert known.mode(MAIL, NOW_MS) is Mode.RUNNING


def test_after_the_lease_was_lost_nothing_is_sent_until_all_was_read_anew() -> None:
    known = known_of()
    reading = known.life
    known.lapse()
    # Begun before: a change may have passed it, made by somebody who did not wait for this instance.
    assert known.read(AllRules(), reading) == set()
    assert known.opens_ms(MAIL, NOW_MS) == math.inf
    assert known.read(AllRules({MAIL: PAUSED}), known.life) == {MAIL}
    assert known.opens_ms(MAIL, NOW_MS) == math.inf
    assert known.opens_ms(OTHER, NOW_MS) == NOW_MS


def test_rules_of_a_later_release_shut_the_queue() -> None:
    """And what they hold besides is kept, where they can be read."""
    later = b'{"revision":4,"mode":"paused","colour":"red"}'
    assert Regulation.from_bytes(later).to_bytes() == later
    unreadable = read_regulation(b'{"revision":5,"mode":"humming","needs":["humming"]}')
    assert (unreadable.revision, unreadable.mode, "later release" in unreadable.note) == (5, Mode.STOPPED, True)
