"""The register of a home of limit keys: what is stored is read again, also by what a later release has appended."""

from __future__ import annotations

import json

import pytest

from timerd.core.regulation import KeysLeft, LimitedKey, LimitLabels, home_left_by, home_left_with, taken_by
from timerd.core.regulation.home_keeping import MOST_LEFT
from timerd.model.errors import NotUnderstood
from timerd.model.keeping import HOME_OF_NOBODY, HOMES, HomeKeeping

MAILS, POST = LimitLabels("default", "mails", ""), LimitLabels("default", "", "post")
LEFT = KeysLeft({LimitedKey(MAILS, "acme"): 2, LimitedKey(POST, "acme"): 1}, {"a": 17, "b": 18})


def test_what_a_keeper_leaves_word_of_is_there_for_the_next_one() -> None:
    kept = taken_by(HOME_OF_NOBODY, "a", 17, 30_000)
    assert (kept.token, kept.holder, kept.incarnation, kept.lease_ms) == (1, "a", 17, 30_000)
    assert home_left_by(kept) is None
    left = HomeKeeping.from_bytes(home_left_with(kept, LEFT).to_bytes())
    assert (left.token, left.holder, home_left_by(left)) == (1, "", LEFT)
    taken = taken_by(left, "b", 18, 10_000)
    assert (taken.token, taken.lease_ms, home_left_by(taken)) == (2, 30_000, None)


def test_who_knows_nothing_or_has_no_room_for_it_leaves_without_a_word() -> None:
    kept = taken_by(HOME_OF_NOBODY, "a", 17, 30_000)
    many = {LimitedKey(MAILS, f"customer {n}"): 1 for n in range(MOST_LEFT + 1)}
    for left in (None, KeysLeft(many)):
        free = home_left_with(kept, left)
        assert (free.holder, home_left_by(free)) == ("", None)


def test_what_a_later_release_has_appended_is_kept_or_left_alone() -> None:
    stored = json.loads(taken_by(HOME_OF_NOBODY, "a", 17, 30_000).to_bytes())
    known = HomeKeeping.from_bytes(json.dumps({**stored, "later": 1}).encode())
    assert json.loads(taken_by(known, "b", 18, 0).to_bytes())["later"] == 1
    with pytest.raises(NotUnderstood):
        HomeKeeping.from_bytes(json.dumps({**stored, "needs": ["more"]}).encode())


def test_all_limits_of_a_key_lie_in_one_of_64_homes() -> None:
    assert {LimitedKey(labels, "acme").home for labels in (MAILS, POST)} == {LimitedKey(MAILS, "acme").home}
    homes = {LimitedKey(MAILS, f"customer {n}").home for n in range(1_000)}
    assert homes == set(range(HOMES))
    # Instances of all releases look for a key in the same place.
    assert [LimitedKey(MAILS, key).home for key in ("acme", "globex", "größer")] == [50, 17, 2]
