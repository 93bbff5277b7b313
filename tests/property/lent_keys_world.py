"""The permits of the limit keys of one home, for a world in which instances lend them to each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from random import Random

from tests.property.lending_world import LEASE_MS, Delivery, Instance
from timerd.core.regulation import (
    BorrowedKeys,
    KeyInHand,
    KeyPermitKeeper,
    KeysGrant,
    KeysLeft,
    KeysStated,
    LimitedKey,
    LimitLabels,
)

KEYS = tuple(LimitedKey(LimitLabels("default", "", "partner"), key) for key in ("acme", "globex", "initech"))


class LentHome:
    """Implements Lent. `limits`: how many of each key may be in hand."""

    rest_turns = 2_500

    def __init__(
        self, seed: int, keeper: type[KeyPermitKeeper] = KeyPermitKeeper, permits: type[BorrowedKeys] = BorrowedKeys
    ) -> None:
        self.limits: dict[Hashable, int] = {key: 1 + (seed + at) % 3 for at, key in enumerate(KEYS)}
        self._keeper, self._permits = keeper, permits
        self.partial = self.full = 0

    def keeper(self, token: int, now_ms: int, left: KeysLeft | None, *, is_first: bool) -> KeyPermitKeeper:
        return self._keeper(token, LEASE_MS, now_ms, left, is_first=is_first)

    def borrowed(self, instance: Instance) -> BorrowedKeys:
        return self._permits(lambda key: KeyInHand(*instance.count(key)))

    def key(self, random: Random) -> Hashable:
        return random.choice(KEYS)

    def free(self, instance: Instance, key: Hashable) -> int:
        free: int = instance.permits.free(key, LEASE_MS)
        return free

    def want(self, instance: Instance, key: Hashable) -> None:
        instance.permits.want(key)

    def sent(self, instance: Instance, delivery: Delivery) -> None:
        instance.permits.used(delivery.key, 1, LEASE_MS)
        instance.own.append(delivery)

    def judge(self, key: Hashable, in_hand: int, now_ms: int) -> None:
        self.full += in_hand == self.limits[key]
        assert in_hand <= self.limits[key], f"{in_hand} of {key} in hand, and the limit is {self.limits[key]}"

    def state(self, instance: Instance, token: int, now_ms: int, heard_round: int = 0) -> KeysStated | None:
        said: KeysStated | None = instance.permits.state(token, LEASE_MS, now_ms, heard_round)
        # Of the calls of who borrows: a keeper that asks names its round.
        self.partial += said is not None and not heard_round and not said.is_whole
        return said

    def lend(self, keeper: KeyPermitKeeper, name: str, said: KeysStated, now_ms: int) -> KeysGrant:
        return keeper.lend(name, said, self.limits.__getitem__, now_ms)

    def refusal(self, who: Instance, said: KeysStated, token: int) -> Callable[[], None]:
        return partial(who.permits.refused, said.seq, token)

    def moved(self, instance: Instance, delivery: Delivery) -> None:
        instance.permits.moved(delivery.key, 1)

    def met(self, instance: Instance, delivery: Delivery) -> None:
        instance.permits.met(delivery.key)

    def lapse(self, instance: Instance) -> None:
        instance.permits.lapse()

    def calm(self, instance: Instance) -> None:
        """It wants a key only while something is held back."""

    def judge_rest(self, keeper: KeyPermitKeeper) -> None:
        """The keeper has forgotten every key."""
        for key in KEYS:
            free, limit = keeper.free(key, self.limits[key]), self.limits[key]
            assert free == limit, f"{free} of {limit} are free at rest"
        assert not len(keeper), f"{len(keeper)} keys are not free at rest: nobody has anything of them"
