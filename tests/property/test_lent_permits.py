"""Permits of a limit in a cluster, through late and lost messages, deaths, pauses, leaves, moves and adoptions: never
more in hand than the limit, at rest all permits are free again; and each rule that is left out is found out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.property.lending_world import LEASE_MS, World
from tests.property.lent_world import LentLimit
from timerd.core.regulation import BorrowedPermits, Grant, Hands, PermitKeeper, Stated
from timerd.core.regulation.lender import GRACE_MS, Doubt

HISTORIES = 60
TURNS = 1_500


def history(
    seed: int, keeper: type[PermitKeeper] = PermitKeeper, permits: type[BorrowedPermits] = BorrowedPermits
) -> World[LentLimit]:
    world = World(seed, LentLimit(1 + seed % 4, keeper, permits))
    for turn in range(TURNS):
        world.turn()
        if seed % 5 == 0 and turn % 150 == 149:
            world.lent.change(world, world.random.randint(1, 5))
    world.rest()
    return world


def test_never_more_than_the_limit_and_all_free_at_rest() -> None:
    worlds = [history(seed) for seed in range(HISTORIES)]
    assert sum(world.starts for world in worlds) > 20 * HISTORIES
    assert sum(world.adoptions for world in worlds) > HISTORIES // 2
    assert sum(world.takeovers for world in worlds) > 3 * HISTORIES
    assert any(world.lent.most_in_hand == world.lent.limit for world in worlds)


class NoReport(PermitKeeper):
    """P2: lends at once."""

    def unheard(self) -> list[str]:
        return []

    def _take_unknown(self, now_ms: float) -> None:
        """Nothing is in doubt."""


class NoVoid(BorrowedPermits):
    """P2: a grant of an earlier keeper counts."""

    def _counts(self, seq: int, token: int) -> bool:
        return True


class FreeLost(PermitKeeper):
    """P3: what was lent counts as free until it is stated."""

    def lend(self, name: str, limit: int, now_ms: float) -> Grant:
        grant = super().lend(name, limit, now_ms)
        self._borrowers[name].lent -= grant.permits
        return grant


class Leak(PermitKeeper):
    """P3: what was under way stays lent for good."""

    def stated(self, name: str, incarnation: int, said: Stated, now_ms: float) -> bool:
        known = self._borrowers.get(name)
        is_taken = super().stated(name, incarnation, said, now_ms)
        if is_taken and known is not None:
            self._borrowers[name].lent = max(known.lent, said.permits)
        return is_taken


class Twice(BorrowedPermits):
    """P4: what goes back is still used."""

    def _let_go(self, hands: Hands, now_ms: float) -> None:
        before = self._permits
        super()._let_go(hands, now_ms)
        self._kept = before

    def state(self, token: int, hands: Hands, now_ms: float, heard_round: int = 0) -> Stated | None:
        said = super().state(token, hands, now_ms, heard_round)
        self._permits = self._kept if said is not None else self._permits
        return said


class OldReturn(PermitKeeper):
    """P4: what was said earlier counts as well."""

    def stated(self, name: str, incarnation: int, said: Stated, now_ms: float) -> bool:
        known = self._borrowers.get(name)
        if known is not None and known.incarnation == incarnation:
            known.stated = known.stated._replace(seq=0)
        return super().stated(name, incarnation, said, now_ms)


class NoWait(PermitKeeper):
    """P5: free as soon as it is dead."""

    def _take_old(self, deliveries: int, now_ms: float) -> None:
        super()._take_old(deliveries, now_ms - self.lease_ms - GRACE_MS)


class MovesFree(BorrowedPermits):
    """What another instance has got leaves a free permit behind."""

    def moved(self, deliveries: int) -> None:
        """Nothing."""


class DeathKnown(PermitKeeper):
    """P5: of one that had not stated in this round it is taken for known what it had."""

    def _take_unknown(self, now_ms: float) -> None:
        if not self._borrowers:
            super()._take_unknown(now_ms)


def adopt_blind(keeper: PermitKeeper, now_ms: float) -> None:
    """P5: nobody states again."""
    if now_ms >= keeper._doubt.until_ms:
        keeper._doubt = Doubt()
        keeper._forget_old()


BROKEN = [NoReport, NoVoid, FreeLost, Leak, Twice, OldReturn, NoWait, MovesFree, DeathKnown]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_a_rule_that_is_left_out_is_found_out(broken: type[PermitKeeper] | type[BorrowedPermits]) -> None:
    def histories() -> None:
        for seed in range(10 * HISTORIES):
            if issubclass(broken, PermitKeeper):
                history(seed, keeper=broken)
            else:
                history(seed, permits=broken)

    with pytest.raises(AssertionError, match=r"in hand, and the limit|free at rest"):
        histories()


@pytest.mark.parametrize("step", [PermitKeeper.step, adopt_blind])
def test_what_was_adopted_is_stated_before_it_is_free(step: Callable[[PermitKeeper, float], None]) -> None:
    """P5 (ADOPTBLIND): the lease that the dead one knew is over, and another instance has the delivery. It lapses
    seldom enough that random histories hardly meet it."""
    keeper = PermitKeeper(1, LEASE_MS, 0, None, is_first=True)
    keeper.lives({"a": 1, "b": 2}, 0)
    keeper.stated("a", 1, Stated(1, 1, 1, 0, LEASE_MS, 0), 0)
    keeper.stated("b", 2, Stated(1, 1, 0, 0, LEASE_MS, 0), 0)
    keeper.lives({"b": 2}, 10)
    assert (keeper.free(1), keeper.old) == (0, 1)
    # By now `b` has what `a` had, and has not said so.
    step(keeper, 10 + LEASE_MS + GRACE_MS)
    lent_too_early = keeper.free(1)
    assert lent_too_early == (step is adopt_blind)
    keeper.stated("b", 2, Stated(2, keeper.round, 1, 0, LEASE_MS, 0), 10 + LEASE_MS + GRACE_MS)
    assert keeper.free(1) == 0


def test_free_permits_are_shared_by_all_that_want_them() -> None:
    keeper = PermitKeeper(1, LEASE_MS, 0, None, is_first=True)
    keeper.lives({"a": 1, "b": 2}, 0)
    keeper.stated("b", 2, Stated(1, 1, 0, 0, LEASE_MS, 0), 0)
    keeper.stated("a", 1, Stated(1, 1, 0, 0, LEASE_MS, 10), 0)
    assert keeper.lend("a", 4, 0).permits == 4
    keeper.stated("b", 2, Stated(2, 1, 0, 0, LEASE_MS, 10), 0)
    assert keeper.lend("b", 4, 0).permits == 0
    # `a` may keep two, and gives the others back as its deliveries end.
    keeper.stated("a", 1, Stated(2, 1, 4, 0, LEASE_MS, 1), 0)
    assert keeper.lend("a", 4, 0).most == 2
    keeper.stated("a", 1, Stated(3, 1, 2, 0, LEASE_MS, 1), 0)
    keeper.stated("b", 2, Stated(3, 1, 0, 0, LEASE_MS, 10), 0)
    assert keeper.lend("b", 4, 0).permits == 2


def test_nothing_is_sent_under_a_longer_lease_than_the_keeper_knows() -> None:
    permits = BorrowedPermits()
    hands = Hands(0, 0, LEASE_MS)
    said = permits.state(1, hands, 0)
    assert said is not None
    assert permits.granted(said.seq, 1, Grant(2, 2, 1, LEASE_MS))
    assert permits.free(hands) == 2
    assert permits.free(Hands(0, 0, LEASE_MS + 1)) == 0
