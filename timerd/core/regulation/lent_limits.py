"""What one instance of a cluster may send by its limits: as many as it has borrowed permits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from timerd.core.dispatch import HandCount
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.permits import BorrowedPermits, Hands
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitLabels
from timerd.model.named_limits import LimitName
from timerd.model.regulations import QueueLimit


class LentLimits:
    """`hand`: what workers have of a queue. `unplaced`: deliveries whose queue nobody knows yet, which
    count for each limit. `lease_ms`: the longest lease of a worker. `ask` is told of limits by which more could be
    sent."""

    def __init__(
        self,
        known: KnownRules,
        hand: Callable[[QueueKey], HandCount | None],
        unplaced: Callable[[], int],
        lease_ms: Callable[[], int],
    ) -> None:
        self._known = known
        self._hand = hand
        self._unplaced = unplaced
        self._lease_ms = lease_ms
        self._ask: Callable[[LimitLabels], None] = lambda _: None
        self._is_leaving = False
        self.borrowed: dict[LimitLabels, BorrowedPermits] = {}

    def on_want(self, ask: Callable[[LimitLabels], None]) -> None:
        self._ask = ask

    def of(self, labels: LimitLabels) -> BorrowedPermits:
        found = self.borrowed.get(labels)
        if found is None:
            found = self.borrowed[labels] = BorrowedPermits()
        return found

    def limit_of(self, labels: LimitLabels) -> QueueLimit | None:
        """As it is by now. None: there is none."""
        if labels.queue:
            return self._known.of(QueueKey(labels.namespace, labels.queue)).limit
        kept = self._known.limit(LimitName(labels.namespace, labels.limit))
        return kept.limit if kept is not None and kept.is_understood else None

    def hands(self, labels: LimitLabels) -> Hands:
        """What counts for it here."""
        own = adopted = 0
        for queue in self._queues(labels):
            if (hand := self._hand(queue)) is not None:
                own += hand.open - hand.brought
                adopted += hand.brought
        return Hands(own, adopted + self._unplaced(), self._lease_ms())

    def free(self, labels: LimitLabels) -> int:
        return self.of(labels).free(self.hands(labels))

    def used(self, labels: LimitLabels) -> None:
        """Something was sent."""
        self.of(labels).used(self.hands(labels))

    def want(self, labels: LimitLabels) -> None:
        """Something is held back."""
        if not self._is_leaving:
            self.of(labels).wants = True
            self._ask(labels)

    def moved(self, queue: QueueKey, deliveries: int) -> None:
        """Another instance has them from now on."""
        for labels in self._limits_of(queue):
            self.of(labels).moved(deliveries)

    def lapse(self) -> None:
        """The lease was lost."""
        for each in self.borrowed.values():
            each.lapse()

    def leave(self) -> None:
        """Nothing is sent any more."""
        self._is_leaving = True
        for each in self.borrowed.values():
            each.leave()

    def in_use(self) -> list[LimitLabels]:
        """Those of which keepers should hear."""
        return [labels for labels, each in self.borrowed.items() if each.is_used(self.hands(labels))]

    def _queues(self, labels: LimitLabels) -> Collection[QueueKey]:
        if labels.queue:
            return (QueueKey(labels.namespace, labels.queue),)
        return self._known.listed_by(LimitName(labels.namespace, labels.limit))

    def _limits_of(self, queue: QueueKey) -> Iterator[LimitLabels]:
        rules = self._known.of(queue)
        if rules.limit is not None:
            yield LimitLabels(queue.namespace, queue.queue, "")
        for name in rules.limits:
            # What each limit key has for itself is lent by another keeper.
            if not self._known.is_keyed(LimitName(queue.namespace, name)):
                yield LimitLabels(queue.namespace, "", name)
