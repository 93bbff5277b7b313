"""What one instance of a cluster may send by the limits that each limit key has for itself: as many as it has borrowed
permits for, from the keepers of the keys' homes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from timerd.core.dispatch import KeyHands
from timerd.core.regulation.key_permits import BorrowedKeys, KeyInHand, KeysStated
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits_of_keys import LimitsOfKeys
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitedKey


class LentKeys:
    """`hands`: what workers have of each key. `unplaced`: how many deliveries there are of which nobody knows the queue
    yet. `lease_ms`: the longest lease of a worker."""

    def __init__(
        self, known: KnownRules, hands: KeyHands, unplaced: Callable[[], int], lease_ms: Callable[[], int]
    ) -> None:
        self._known = known
        self.limits = LimitsOfKeys(known)
        self._hands = hands
        self._unplaced = unplaced
        self._lease_ms = lease_ms
        self._ask: Callable[[int], None] = lambda _: None
        self._is_leaving = False
        self._news = -1
        self.homes: dict[int, BorrowedKeys] = {}
        hands.on_brought(self._met)

    def on_want(self, ask: Callable[[int], None]) -> None:
        """`ask` is told of homes by whose keys more could be sent."""
        self._ask = ask

    def of(self, home: int) -> BorrowedKeys:
        found = self.homes.get(home)
        if found is None:
            found = self.homes[home] = BorrowedKeys(self._in_hand)
        return found

    def keys_of(self, queue: QueueKey, limit_key: str) -> Iterator[LimitedKey]:
        """By what permits a limit key of the queue goes."""
        return (key for key in self.limits.of(queue, limit_key) if self.limits.most_of(key))

    @property
    def lease_ms(self) -> int:
        return self._lease_ms()

    def free(self, key: LimitedKey) -> int:
        """How many may start now."""
        found = self.homes.get(key.home)
        return found.free(key, self._lease_ms()) if found is not None else 0

    def used(self, queue: QueueKey, limit_key: str, tasks: int) -> None:
        """So many are about to be sent."""
        for key in self.keys_of(queue, limit_key):
            self.of(key.home).used(key, tasks, self._lease_ms())

    def want(self, key: LimitedKey) -> None:
        """Something of it is held back."""
        if not self._is_leaving:
            self.of(key.home).want(key)
            self._ask(key.home)

    def moved(self, queue: QueueKey, limit_key: str, deliveries: int) -> None:
        """Another instance has them from now on."""
        for key in self.keys_of(queue, limit_key):
            self.of(key.home).moved(key, deliveries)

    def stated(self, home: int, token: int, now_ms: float, heard_round: int = 0) -> KeysStated | None:
        """What there is of a home. None: it has stated to a later keeper."""
        self._look()
        is_known = not self._unplaced()
        return self.of(home).state(token, self._lease_ms(), now_ms, heard_round, is_known=is_known)

    def in_use(self, now_ms: float) -> Collection[int]:
        """Homes whose keepers should hear something now."""
        self._look()
        return [home for home, each in self.homes.items() if each.is_used and each.is_due(now_ms)]

    def lapse(self) -> None:
        """The lease was lost."""
        for each in self.homes.values():
            each.lapse()

    def leave(self) -> None:
        """Nothing is sent any more."""
        self._is_leaving = True
        for each in self.homes.values():
            each.leave()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """By other rules other deliveries count."""
        if self._news != self._known.news:
            self._news = self._known.news
            for queue, limit_key in [*self._hands.owners()]:
                if self._hands.open(queue, limit_key):
                    self._met(queue, limit_key)

    def _met(self, queue: QueueKey, limit_key: str) -> None:
        for key in self.keys_of(queue, limit_key):
            self.of(key.home).met(key)

    def _in_hand(self, key: LimitedKey) -> KeyInHand:
        own = adopted = 0
        for queue in self.limits.queues(key.limit):
            if (hand := self._hands.known(queue, key.limit_key)) is not None:
                own += hand.open - hand.brought
                adopted += hand.brought
        return KeyInHand(own, adopted)
