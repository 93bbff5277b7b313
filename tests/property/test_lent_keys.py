"""Permits of limit keys in a cluster, through late and lost messages, deaths, pauses, leaves, moves and adoptions.

No key is ever above its limit, at rest all are free and forgotten; and each rule that is left out is found.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.property.lending_world import LEASE_MS, World
from tests.property.lent_keys_world import KEYS, LentHome
from timerd.core.regulation import (
    BorrowedKeys,
    KeyInHand,
    KeyPermitKeeper,
    KeysGrant,
    KeysStated,
    KeyStated,
    LimitedKey,
)
from timerd.core.regulation.lender import GRACE_MS

HISTORIES = 60
TURNS = 1_500
ACME, GLOBEX, _ = KEYS


def history(
    seed: int, keeper: type[KeyPermitKeeper] = KeyPermitKeeper, permits: type[BorrowedKeys] = BorrowedKeys
) -> World[LentHome]:
    world = World(seed, LentHome(seed, keeper, permits))
    for _ in range(TURNS):
        world.turn()
    world.rest()
    return world


def test_no_key_is_above_its_limit_and_all_are_free_and_forgotten_at_rest() -> None:
    worlds = [history(seed) for seed in range(HISTORIES)]
    assert sum(world.starts for world in worlds) > 20 * HISTORIES
    assert sum(world.adoptions for world in worlds) > HISTORIES // 2
    assert sum(world.takeovers for world in worlds) > 3 * HISTORIES
    assert sum(world.lent.partial for world in worlds) > 20 * HISTORIES
    assert sum(world.lent.full for world in worlds) > HISTORIES


class FewFirst(BorrowedKeys):
    """L1: also the first statement says what has changed."""

    def state(
        self, token: int, lease_ms: int, now_ms: float, heard_round: int = 0, *, is_known: bool = True
    ) -> KeysStated | None:
        said = super().state(token, lease_ms, now_ms, heard_round, is_known=is_known)
        if said is None or not said.is_whole:
            return said
        self._said = {key: one for key, one in said.keys.items() if one.permits != self._keys[key].confirmed}
        return said._replace(keys=self._said)


class Unheard(KeyPermitKeeper):
    """L1: who has not said all is taken for who has."""

    @staticmethod
    def _is_taken(known: object, said: KeysStated) -> bool:
        return known is None or said.seq > known.seq  # type: ignore[attr-defined]


class FewAfterAll(BorrowedKeys):
    """L1: nothing is said as a whole to a new keeper, which takes it for all (`Unheard`)."""

    def _begin(self, token: int) -> None:
        was_told = self._is_told
        super()._begin(token)
        self._is_told = was_told


class SaidOnce(BorrowedKeys):
    """L2: what was said is not said again."""

    def state(
        self, token: int, lease_ms: int, now_ms: float, heard_round: int = 0, *, is_known: bool = True
    ) -> KeysStated | None:
        said = super().state(token, lease_ms, now_ms, heard_round, is_known=is_known)
        for key, one in (said.keys if said is not None else {}).items():
            self._keys[key].confirmed = one.permits
            self._keys[key].moved = 0
            self._news.discard(key)
        return said


class LateCounts(KeyPermitKeeper):
    """L3: what comes late counts."""

    @staticmethod
    def _is_taken(known: object, said: KeysStated) -> bool:
        return said.is_whole if known is None else True


class LateGrants(BorrowedKeys):
    """P3: a grant counts that answers an earlier statement, of an earlier keeper as well."""

    def _counts(self, seq: int, token: int) -> bool:
        return True


class LendsAtOnce(KeyPermitKeeper):
    """P2: a new keeper asks nobody."""

    def unheard(self) -> list[str]:
        return []

    def _take_unknown(self, now_ms: float) -> None:
        """Nothing is in doubt."""


class DeadHaveNothing(KeyPermitKeeper):
    """P5: free as soon as it is dead."""

    def _wait(self, now_ms: float) -> None:
        super()._wait(now_ms - self.lease_ms - GRACE_MS)


class NothingIsOld(KeyPermitKeeper):
    """P5: what has moved, and what a dead one had, is free."""

    def _take_old(self, deliveries: Mapping[LimitedKey, int], now_ms: float) -> None:
        self._wait(now_ms)


class StaysOld(KeyPermitKeeper):
    """P5: what was old is never free again."""

    def _forget_old(self) -> None:
        """Nothing."""


BROKEN_PERMITS = FewFirst, SaidOnce, LateGrants
BROKEN_KEEPERS = LateCounts, LendsAtOnce, DeadHaveNothing, NothingIsOld, StaysOld
BROKEN: list[tuple[type[KeyPermitKeeper], type[BorrowedKeys]]] = [
    (Unheard, FewAfterAll),
    *((KeyPermitKeeper, each) for each in BROKEN_PERMITS),
    *((each, BorrowedKeys) for each in BROKEN_KEEPERS),
]


@pytest.mark.parametrize(("keeper", "permits"), BROKEN, ids=lambda each: each.__name__)
def test_a_rule_that_is_left_out_is_found_out(keeper: type[KeyPermitKeeper], permits: type[BorrowedKeys]) -> None:
    def histories() -> None:
        for seed in range(10 * HISTORIES):
            history(seed, keeper, permits)

    with pytest.raises(AssertionError, match=r"in hand, and the limit|free at rest"):
        histories()


class Two:
    """A keeper and two instances that have stated to it, `a` of the incarnation 1 and `b` of 2."""

    def __init__(self) -> None:
        self.hands = {name: dict[LimitedKey, KeyInHand]() for name in ("a", "b")}
        self.permits = {name: BorrowedKeys(self._hands(name)) for name in ("a", "b")}
        self.incarnations = {"a": 1, "b": 2}
        self.keeper = KeyPermitKeeper(1, LEASE_MS, 0, None, is_first=True)
        self.keeper.lives(self.incarnations, 0)
        # By the first answer each knows the round.
        for name in ("a", "b", "a", "b"):
            self.call(name, 0)

    def _hands(self, name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return lambda key: self.hands[name].get(key, KeyInHand(0, 0))

    def call(self, name: str, now_ms: float, most: int = 4) -> KeysGrant:
        said = self.permits[name].state(self.keeper.token, LEASE_MS, now_ms)
        assert said is not None
        assert self.keeper.stated(name, self.incarnations[name], said, now_ms)
        grant = self.keeper.lend(name, said, lambda _: most, now_ms)
        self.permits[name].granted(said.seq, self.keeper.token, grant)
        return grant

    def free(self, name: str, key: LimitedKey = ACME) -> int:
        return self.permits[name].free(key, LEASE_MS)


def test_a_key_that_was_granted_is_not_said_again_until_it_changes() -> None:
    two = Two()
    two.permits["a"].want(ACME)
    assert two.call("a", 0).permits == {ACME: 1}
    two.permits["a"].want(GLOBEX)
    said = two.permits["a"].state(1, LEASE_MS, 10)
    assert said is not None
    assert (said.is_whole, set(said.keys)) == (False, {GLOBEX})


def test_what_was_adopted_is_stated_before_it_is_free() -> None:
    """P5, L2: the lease that the dead one knew is over, and another instance has the delivery. It lapses seldom enough
    that random histories hardly meet it."""
    two = Two()
    two.permits["a"].want(ACME)
    two.call("a", 0, most=1)
    two.keeper.lives({"b": 2}, 10)
    assert (two.keeper.free(ACME, 1), two.keeper.old[ACME]) == (0, 1)
    over_ms = 10 + LEASE_MS + GRACE_MS
    # By now `b` has what `a` had, and has not said so.
    two.hands["b"][ACME] = KeyInHand(0, 1)
    two.permits["b"].met(ACME)
    two.keeper.step(over_ms)
    assert two.keeper.free(ACME, 1) == 0
    said = two.permits["b"].state(1, LEASE_MS, over_ms, two.keeper.round)
    assert said is not None
    assert said.keys == {ACME: KeyStated(1, 0, 0)}
    assert two.keeper.stated("b", 2, said, over_ms)
    assert (two.keeper.free(ACME, 1), two.keeper.free(ACME, 2), two.keeper.old[ACME]) == (0, 1, 0)


def test_who_does_not_know_what_its_workers_have_does_not_answer_a_round() -> None:
    """A delivery that a worker has brought, and of which nobody has looked up yet whose it is, may be of the key."""
    two = Two()
    two.keeper.lives({"a": 1, "b": 2, "c": 3}, 0)
    two.keeper.lives({"a": 1, "b": 2}, 0)
    two.keeper.step(LEASE_MS + GRACE_MS)
    for name in ("a", "b"):
        is_known = name == "a"
        said = two.permits[name].state(1, LEASE_MS, LEASE_MS + GRACE_MS, two.keeper.round, is_known=is_known)
        assert said is not None
        assert two.keeper.stated(name, two.incarnations[name], said, LEASE_MS + GRACE_MS)
    assert two.keeper.unheard() == ["b"]
    said = two.permits["b"].state(1, LEASE_MS, LEASE_MS + GRACE_MS + 1)
    assert said is not None
    assert two.keeper.stated("b", 2, said, LEASE_MS + GRACE_MS + 1)
    assert (two.keeper.unheard(), two.keeper.free(ACME, 4)) == ([], 4)


def test_free_permits_are_shared_by_all_that_want_them() -> None:
    two = Two()
    for now_ms in range(0, 300, 100):
        two.permits["a"].want(ACME)
        two.call("a", now_ms)
    assert two.free("a") == 4
    two.permits["b"].want(ACME)
    assert two.call("b", 300).permits == {}
    # `a` may keep three, and gives back what it does not use.
    assert two.call("a", 400).most == {ACME: 3}
    assert two.free("a") == 3
    two.call("a", 1_500)
    assert two.call("b", 1_600).permits == {ACME: 1}
    # Nobody wants more: all is theirs.
    assert two.call("a", 1_700).most == {}


def test_nothing_is_sent_under_a_longer_lease_than_the_keeper_knows() -> None:
    two = Two()
    two.permits["a"].want(ACME)
    two.call("a", 0)
    assert two.free("a") == 1
    assert two.permits["a"].free(ACME, LEASE_MS + 1) == 0


def test_what_is_not_used_goes_back_and_is_forgotten() -> None:
    two = Two()
    two.permits["a"].want(ACME)
    two.call("a", 0)
    assert len(two.keeper) == 1
    for now_ms in (2_100, 4_200, 6_300):
        two.call("a", now_ms)
    assert (two.free("a"), len(two.keeper), two.permits["a"].is_used) == (0, 0, False)


def test_who_keeps_a_home_and_leaves_says_what_was_old() -> None:
    two = Two()
    two.permits["a"].want(ACME)
    two.call("a", 0, most=1)
    two.keeper.lives({"b": 2}, 10)
    left = two.keeper.left()
    assert left is not None
    assert (dict(left.old), left.borrowers) == ({ACME: 1}, {"b": 2})
    later = KeyPermitKeeper(2, LEASE_MS, 20, left)
    later.lives({"b": 2}, 20)
    said = two.permits["b"].state(2, LEASE_MS, 20, later.round)
    assert said is not None
    assert said.is_whole
    assert later.stated("b", 2, said, 20)
    assert (later.free(ACME, 2), later.free(GLOBEX, 2)) == (1, 2)


def test_a_late_statement_to_a_keeper_that_has_heard_nothing_is_refused() -> None:
    two = Two()
    later = KeyPermitKeeper(1, LEASE_MS, 0, None, is_first=True)
    later.lives(two.incarnations, 0)
    said = two.permits["a"].state(1, LEASE_MS, 0)
    assert said is not None
    assert not said.is_whole
    assert not later.stated("a", 1, said, 0)
    two.permits["a"].refused(said.seq, 1)
    said = two.permits["a"].state(1, LEASE_MS, 0)
    assert said is not None
    assert said.is_whole
