"""The permits of one limit, for a world in which instances lend them to each other."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

from tests.property.lending_world import LEASE_MS, Delivery, Instance, World
from timerd.core.regulation import BorrowedPermits, Grant, Hands, Left, PermitKeeper, Stated

CHANGE_MS = 10_000


def hands(instance: Instance) -> Hands:
    return Hands(len(instance.own), len(instance.adopted), LEASE_MS)


class LentLimit:
    """Implements Lent."""

    rest_turns = 1_500

    def __init__(
        self,
        limit: int,
        keeper: type[PermitKeeper] = PermitKeeper,
        permits: type[BorrowedPermits] = BorrowedPermits,
    ) -> None:
        self.limit = limit
        self._changed_ms, self._most = 0, limit
        self._keeper, self._permits = keeper, permits
        self.most_in_hand = 0

    def keeper(self, token: int, now_ms: int, left: Left | None, *, is_first: bool) -> PermitKeeper:
        return self._keeper(token, LEASE_MS, now_ms, left, is_first=is_first)

    def borrowed(self, instance: Instance) -> BorrowedPermits:
        return self._permits()

    def key(self, random: Random) -> Hashable:
        return ""

    def free(self, instance: Instance, key: Hashable) -> int:
        free: int = instance.permits.free(hands(instance))
        return free

    def want(self, instance: Instance, key: Hashable) -> None:
        instance.permits.wants = True

    def sent(self, instance: Instance, delivery: Delivery) -> None:
        instance.own.append(delivery)
        instance.permits.used(hands(instance))

    def judge(self, key: Hashable, in_hand: int, now_ms: int) -> None:
        self.most_in_hand = max(self.most_in_hand, in_hand)
        most = self.limit if now_ms > self._changed_ms + CHANGE_MS else self._most
        assert in_hand <= most, f"{in_hand} in hand, and the limit is {most}"

    def change(self, world: World[LentLimit], limit: int) -> None:
        self._most, self._changed_ms = max(limit, self.limit, len(list(world.all_in_hand()))), world.now_ms
        self.limit = limit

    def state(self, instance: Instance, token: int, now_ms: int, heard_round: int = 0) -> Stated | None:
        said: Stated | None = instance.permits.state(token, hands(instance), now_ms, heard_round)
        return said

    def lend(self, keeper: PermitKeeper, name: str, said: Stated, now_ms: int) -> Grant:
        return keeper.lend(name, self.limit, now_ms)

    def refusal(self, who: Instance, said: Stated, token: int) -> None:
        """Nobody says so."""

    def moved(self, instance: Instance, delivery: Delivery) -> None:
        instance.permits.moved(1)

    def met(self, instance: Instance, delivery: Delivery) -> None:
        """With the next statement."""

    def lapse(self, instance: Instance) -> None:
        instance.permits.lapse()
        instance.permits.moved(len(instance.own))

    def calm(self, instance: Instance) -> None:
        instance.permits.wants = False

    def judge_rest(self, keeper: PermitKeeper) -> None:
        free = keeper.free(self.limit)
        assert free == self.limit, f"{free} of {self.limit} are free at rest"
