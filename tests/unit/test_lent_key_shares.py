"""The share of a limit key in a cluster: it is lent as a limit of the key, and is one of what the queue may have."""

from __future__ import annotations

import pytest

from timerd.core.dispatch import HandCount, KeyHands
from timerd.core.regulation import AllRules, KnownRules, LentKeys, LimitedKey, LimitLabels
from timerd.core.taken import QueueKey
from timerd.model.regulations import KeyRules, QueueLimit, Regulation

MAIL = QueueKey("default", "mail")


def lent(limit: QueueLimit | None, keys: KeyRules | None) -> LentKeys:
    known = KnownRules()
    known.read(AllRules(), known.life)
    known.heard(MAIL, Regulation(1, limit=limit, keys=keys))
    return LentKeys(known, KeyHands(lambda _: HandCount()), lambda: 0, lambda: 0)


def most_of(limit_key: str, limit: QueueLimit | None, keys: KeyRules | None) -> int:
    return lent(limit, keys).limits.most_of(LimitedKey(LimitLabels(*MAIL, ""), limit_key))


@pytest.mark.parametrize(
    ("whole", "share", "own", "most"),
    [
        (8, 0.25, 0, 2),
        (8, 0.25, 1, 1),
        (8, 0.25, 5, 2),
        (3, 0.1, 0, 1),
        (100, 0.07, 0, 7),
        (8, 1, 5, 5),
        (0, 0.25, 5, 5),
    ],
)
def test_the_share_is_lent_as_a_limit_of_the_key(whole: int, share: float, own: int, most: int) -> None:
    limit = QueueLimit(whole, 5, 1_000, 1)
    assert most_of("acme", limit, KeyRules(QueueLimit(own) if own else None, share=share)) == most


def test_a_queue_that_says_no_share_or_bounds_nothing_lends_none() -> None:
    assert most_of("acme", None, KeyRules(share=0.25)) == 0
    assert most_of("acme", QueueLimit(8), None) == 0
    assert lent(QueueLimit(8), None).limits.share(MAIL) == 0


def test_a_key_without_a_limit_of_its_own_has_a_share_all_the_same() -> None:
    keys = KeyRules(QueueLimit(1), (("acme", None), ("globex", QueueLimit(7))), share=0.5)
    assert [most_of(each, QueueLimit(8), keys) for each in ("acme", "globex", "initech")] == [4, 4, 1]
    assert [*lent(QueueLimit(8), keys).keys_of(MAIL, "")] == []
