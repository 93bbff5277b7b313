"""How much of its limits all limit keys of a queue use together, for who watches it. No key leaves this by its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from timerd.core.dispatch import DeliveryMachine
from timerd.core.fairness import LimitKeys
from timerd.core.regulation.holds import labels_of
from timerd.core.regulation.key_limits import UNBOUNDED
from timerd.core.regulation.key_rates import RatesOfKeys
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitLabels
from timerd.model.named_limits import LimitName


class KeyUse(NamedTuple):
    """`in_hand`: deliveries of these keys that workers have. `capacity`: how many a key may have, where it has no
    override; 0: any number. `waiting`: due rows of keys that are held back. `throttled`: how often one had to wait.
    `drawn`: tokens of their rates that this instance of a cluster has got, of which so many have `lapsed`."""

    keys_in_hand: int
    keys_held: int
    in_hand: int
    capacity: int
    waiting: int
    throttled: int
    drawn: int = 0
    lapsed: int = 0


@dataclass(slots=True)
class _UseCount:
    capacity: int
    in_hand: int = 0
    waiting: int = 0
    throttled: int = 0
    tokens: tuple[int, int] = (0, 0)
    keys_in_hand: set[str] = field(default_factory=set)
    keys_held: set[str] = field(default_factory=set)

    def use(self) -> KeyUse:
        of_keys = len(self.keys_in_hand), len(self.keys_held)
        return KeyUse(*of_keys, self.in_hand, self.capacity, self.waiting, self.throttled, *self.tokens)


class KeyUses:
    """Of queues with limit keys, and of limits that each key has for itself."""

    def __init__(self, known: KnownRules, machine: DeliveryMachine, keys: LimitKeys, rates: RatesOfKeys) -> None:
        self._known = known
        self._rates = rates
        self._hands = machine.key_hands
        self._keys = keys

    def at(self, now_ms: int) -> dict[LimitLabels, KeyUse]:
        """One pass over the keys that are in hand, and over those that are held back."""
        queues = [queue for queue in self._keys.queues if self._keys.has_turns(queue) and not queue.is_internal]
        by_queue = {queue: list(self._labels(queue)) for queue in queues}
        counts = {labels: _UseCount(self._capacity(labels)) for each in by_queue.values() for labels in each}
        self._count_hands(by_queue, counts)
        self._count_held(by_queue, counts, now_ms)
        for labels, tokens in self._rates.counted().items():
            if labels in counts:
                counts[labels].tokens = tokens
        return {labels: count.use() for labels, count in counts.items()}

    def _count_hands(self, by_queue: dict[QueueKey, list[LimitLabels]], counts: dict[LimitLabels, _UseCount]) -> None:
        for queue, limit_key in self._hands.owners():
            in_hand = self._hands.open(queue, limit_key) if limit_key else 0
            for labels in by_queue.get(queue, ()) if in_hand else ():
                counts[labels].in_hand += in_hand
                counts[labels].keys_in_hand.add(limit_key)

    def _count_held(
        self, by_queue: dict[QueueKey, list[LimitLabels]], counts: dict[LimitLabels, _UseCount], now_ms: int
    ) -> None:
        for queue in by_queue:
            for line in self._keys.held(queue, now_ms):
                if (count := counts.get(labels_of(queue, line.held_by))) is not None:
                    count.waiting += line.rows
                    count.keys_held.add(line.limit_key)
        for (queue, limit), times in self._keys.waits.items():
            if (count := counts.get(labels_of(queue, limit))) is not None:
                count.throttled += times

    def _labels(self, queue: QueueKey) -> Iterator[LimitLabels]:
        yield labels_of(queue, "")
        for limit in self._known.of(queue).limits:
            if self._known.is_keyed(LimitName(queue.namespace, limit)):
                yield labels_of(queue, limit)

    def _capacity(self, labels: LimitLabels) -> int:
        if labels.limit:
            kept = self._known.limit(LimitName(labels.namespace, labels.limit))
            return kept.limit.max_in_hand if kept is not None and kept.limit is not None else 0
        queue = QueueKey(labels.namespace, labels.queue)
        keys = self._known.of(queue).keys
        own = keys.limit.max_in_hand if keys is not None and keys.limit is not None else 0
        least = min(own or UNBOUNDED, self._keys.limits.share(queue))
        return 0 if least >= UNBOUNDED else least
